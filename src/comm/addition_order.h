// In which order the values of a group's ranks are added: a property of the group, so that bits
// depend neither on the algorithm nor on sizes, timing or memory.
#pragma once

#include <span>

namespace tutti::comm {

/// Ranks of a group as additions see them: `run` consecutive ranks are added in rank order, then
/// the sums of these runs in order. run == ranks: plain rank order.
struct GroupMap {
  int ranks = 1;
  int run = 1;           // divides ranks
  bool by_node = false;  // a run is what the group has on one NUMA node
  [[nodiscard]] bool flat() const { return run <= 1 || run == ranks; }
};

/// The map of ranks on these NUMA nodes (one per rank of the group, -1: unknown). A group that
/// spans nodes in equal, consecutive parts is added node by node; otherwise one of more than 16
/// ranks in about as many runs as a run has ranks, which hierarchical algorithms need; else in rank
/// order.
GroupMap group_map(std::span<const int> numa);

/// The largest divisor of `ranks` that is no larger than the number of groups it makes.
int subgroup_size(int ranks);

/// NUMA node of all CPUs that this process may run on; -1 if they lie on several, or the host does
/// not say. Some microseconds on a host of one node, about 10 ms on others.
int own_numa_node();

}  // namespace tutti::comm
