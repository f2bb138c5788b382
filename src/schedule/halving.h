// Recursive halving and doubling: partners at distance p/2, p/4, ..., 1, where p is the largest
// power of two <= P. Ranks from p on are extras: rank r >= p hands its data to rank r - p first and
// gets its result from it at the end. Every element is added by the same tree: the ranks are split
// by their last bits, extras first (schedule/sums.h), so halving and doubling give the same bits.
#pragma once

#include "schedule/shares.h"
#include "schedule/team.h"

namespace tutti::schedule {

/// Halving, then doubling back. 2 log2 p rounds, and 2 more with extras. Sends 2(p-1)/p n elements,
/// and n more if the rank serves an extra.
void halving_all_reduce(StepBuilder& out, const Team& team, Slice data);

/// Rank r ends with the sum in share r. log2 p rounds, and 2 more with extras.
void halving_reduce_scatter(StepBuilder& out, const Team& team, const Shares& shares);

/// Rank r starts with share r and ends with all. log2 p rounds, and 2 more with extras.
void halving_all_gather(StepBuilder& out, const Team& team, const Shares& shares);

/// Partners exchange and add whole buffers: log2 p rounds, n log2 p elements sent, and 2 rounds and
/// n more with extras.
void doubling_all_reduce(StepBuilder& out, const Team& team, Slice data);

/// The largest power of two <= size. size >= 1.
int core_size(int size);

}  // namespace tutti::schedule
