// Scatter and gather along a binomial tree: a rank passes on what its subtree needs. P ranks, n
// elements.
#pragma once

#include "schedule/shares.h"
#include "schedule/team.h"

namespace tutti::schedule {

/// Rank r ends with share r of the root's data. ceil(log2 P) rounds; the root sends all shares but
/// its own. Works for shares of any size. Ranks in between use their own Data, at the same place,
/// to hold what they pass on.
void binomial_scatter(StepBuilder& out, const Team& team, int root, const Shares& shares);

/// The root ends with share r of rank r. The reverse of the scatter, same rounds.
void binomial_gather(StepBuilder& out, const Team& team, int root, const Shares& shares);

}  // namespace tutti::schedule
