// Two-level collectives of schedule/hierarchical.h.
#include "schedule/hierarchical.h"

#include "schedule/direct.h"
#include "schedule/ring.h"

namespace tutti::schedule {
namespace {

// Shares of the ranks on this rail, by group.
Shares rail_shares(const Levels& levels, const Shares& shares) {
  Shares result;
  for (int i = 0; i < levels.rail.size(); ++i) {
    result.push_back(shares[static_cast<std::size_t>(levels.rail.rank(i))]);
  }
  return result;
}

}  // namespace

Levels::Levels(int rank, int ranks, int group_size)
    : group{{rank / group_size * group_size, group_size, 1}, rank % group_size},
      rail{{rank % group_size, ranks / group_size, group_size}, rank / group_size} {}

void hierarchical_all_reduce(StepBuilder& out, const Levels& levels, const Shares& shards,
                             const RailAllReduce& between) {
  const Slice shard = shards[static_cast<std::size_t>(levels.group.index)];
  out.sync(levels.group.members);
  reduce_share(out, levels.group, shard);
  between(out, levels.rail, shard);
  store_share(out, levels.group, shard);
  out.sync(levels.group.members);
}

void hierarchical_reduce_scatter(StepBuilder& out, const Levels& levels, const Shares& shares) {
  const Shares rail = rail_shares(levels, shares);
  out.sync(levels.group.members);
  for (const Slice& share : rail) reduce_share(out, levels.group, share);
  expand(ring_reduce_scatter(levels.rail.size()), levels.rail, rail, out);
  out.sync(levels.group.members);
}

void hierarchical_all_gather(StepBuilder& out, const Levels& levels, const Shares& shares) {
  const Shares rail = rail_shares(levels, shares);
  expand(ring_all_gather(levels.rail.size()), levels.rail, rail, out);
  out.sync(levels.group.members);
  for (const Slice& share : rail) store_share(out, levels.group, share);
  out.sync(levels.group.members);
}

}  // namespace tutti::schedule
