// Two levels: groups of L consecutive ranks that share memory, G of them; rails join the ranks of
// equal index in their group. Inside a group the direct two-shot, between groups an algorithm of
// choice, so that every rank carries 1/L of the traffic between groups. Groups must be equal: a
// rank of a larger one would have no rail.
#pragma once

#include <functional>

#include "schedule/shares.h"
#include "schedule/team.h"

namespace tutti::schedule {

/// One rank's place in both levels.
struct Levels {
  Levels(int rank, int ranks, int group);
  Team group;  // ranks of the own group
  Team rail;   // ranks of the own index, by group
};

/// All-reduces a slice over a rail.
using RailAllReduce = std::function<void(StepBuilder&, const Team& rail, Slice slice)>;

/// Reduce-scatter in the group, `between` on the own shard (1/L of the data) over the rail,
/// all-gather in the group: 2 rounds and those of `between`. Sums: rank order in the group, then
/// the groups' sums as `between` adds them.
void hierarchical_all_reduce(StepBuilder& out, const Levels& levels, const Shares& shards,
                             const RailAllReduce& between);

/// Rank r ends with share r: the group reduces, for each local index, the shares of that index's
/// rail; then a ring reduce-scatter along the rail. 2 + G - 1 rounds.
void hierarchical_reduce_scatter(StepBuilder& out, const Levels& levels, const Shares& shares);

/// The reverse: a ring all-gather along the rail, then everything of the rail is stored into the
/// group's buffers. 2 + G - 1 rounds.
void hierarchical_all_gather(StepBuilder& out, const Levels& levels, const Shares& shares);

}  // namespace tutti::schedule
