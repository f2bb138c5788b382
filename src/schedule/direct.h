// Collectives over shared memory: ranks read and write their peers' buffers in place. P ranks, n
// elements. A sync is Publish + Await: one before peers touch a buffer (its owner has entered), one
// before its owner leaves (all have finished with it). Additions run in the order of the team's
// ranks. Rounds are syncs.
#pragma once

#include "schedule/shares.h"
#include "schedule/team.h"

namespace tutti::schedule {

/// Two-shot. Rank r reduces share r out of all buffers and stores it into all: 2 syncs. 2(P-1)/P n
/// elements cross.
void direct_all_reduce(StepBuilder& out, const Team& team, const Shares& shares);

/// First half of the two-shot: 2 syncs, (P-1)/P n elements are read from peers.
void direct_reduce_scatter(StepBuilder& out, const Team& team, const Shares& shares);

/// Every rank stores its share into all buffers: 2 syncs, P-1 times its share.
void direct_all_gather(StepBuilder& out, const Team& team, const Shares& shares);

/// Everybody copies the root's data (root: an index of the team): 2 syncs.
void direct_broadcast(StepBuilder& out, const Team& team, int root, Slice data);

/// Rank r reduces share r out of all buffers and stores it into the root's: 2 syncs.
void direct_reduce(StepBuilder& out, const Team& team, int root, const Shares& shares);

/// Rank r copies share r from the root. 2 syncs, with the root only.
void direct_scatter(StepBuilder& out, const Team& team, int root, const Shares& shares);

/// Rank r stores share r into the root's buffer. 2 syncs, with the root only.
void direct_gather(StepBuilder& out, const Team& team, int root, const Shares& shares);

/// Every rank copies its data into its slot (Scratch, n elements) and reduces all slots itself: 1
/// sync, (P-1) n elements are read from peers.
void one_shot_all_reduce(StepBuilder& out, const Team& team, Slice data);

/// Two-shot for buffers that peers cannot see: k chunks through two alternating halves of Scratch.
/// One sync tells that a chunk is done and the next has come: k + 1 syncs. Needs staged_scratch()
/// elements of Scratch.
void staged_all_reduce(StepBuilder& out, const Team& team, Slice data, int chunks);
std::size_t staged_scratch(Slice data, int chunks);

/// The pieces of the two-shot, for a hierarchy: reduce own share `slice` out of the team's buffers;
/// store it into them.
void reduce_share(StepBuilder& out, const Team& team, Slice slice, Space space = Space::Data);
void store_share(StepBuilder& out, const Team& team, Slice slice, Space space = Space::Data);

}  // namespace tutti::schedule
