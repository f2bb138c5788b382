// A pipelined chain: data goes from rank to rank in chunks. P ranks, n elements, k chunks. The
// additions run in plain rank order for every element, so the bits are those of one loop over the
// ranks.
#pragma once

#include "schedule/team.h"

namespace tutti::schedule {

/// Sums travel from the first rank to the last, results travel back: 2(P-1) + k - 1 rounds; no rank
/// sends more than 2n.
void chain_all_reduce(StepBuilder& out, const Team& team, Slice data, int chunks);

/// From the root (an index of the team) round the team in order: P - 1 + k - 1 rounds; no rank
/// sends more than n.
void chain_broadcast(StepBuilder& out, const Team& team, int root, Slice data, int chunks);

/// From the first rank to the last, then to the root unless that is the last: P - 1 + k - 1 rounds,
/// and one more then. No rank sends more than n.
void chain_reduce(StepBuilder& out, const Team& team, int root, Slice data, int chunks);

}  // namespace tutti::schedule
