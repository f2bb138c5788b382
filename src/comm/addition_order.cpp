// Runs of ranks by NUMA node or by number.
#include "comm/addition_order.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "core/error.h"
#include "topology/discover.h"

namespace tutti::comm {
namespace {

constexpr int kMostFlatRanks = 16;

// How many consecutive ranks each node has, if that is the same everywhere and no node comes twice;
// else 0.
int ranks_per_node(std::span<const int> numa) {
  const auto first_end =
      std::find_if(numa.begin(), numa.end(), [&](int node) { return node != numa.front(); });
  const auto run = static_cast<std::size_t>(first_end - numa.begin());
  if (numa.front() < 0 || numa.size() % run != 0) return 0;
  std::set<int> seen;
  for (std::size_t begin = 0; begin < numa.size(); begin += run) {
    const auto part = numa.subspan(begin, run);
    const bool one = std::all_of(part.begin(), part.end(), [&](int n) { return n == part[0]; });
    if (!one || part[0] < 0 || !seen.insert(part[0]).second) return 0;
  }
  return static_cast<int>(run);
}

}  // namespace

GroupMap group_map(std::span<const int> numa) {
  const int ranks = static_cast<int>(numa.size());
  GroupMap map = {ranks, ranks, false};
  if (ranks < 2) return map;
  const int per_node = ranks_per_node(numa);
  if (per_node > 1 && per_node < ranks) return {ranks, per_node, true};
  if (ranks > kMostFlatRanks) map.run = subgroup_size(ranks);
  return map;
}

int subgroup_size(int ranks) {
  int best = 1;
  for (int size = 2; size * size <= ranks; ++size) {
    if (ranks % size == 0) best = size;
  }
  return best;
}

int own_numa_node() {
  std::ifstream file("/sys/devices/system/node/online");
  std::string nodes;
  if (!std::getline(file, nodes)) return -1;
  if (nodes == "0") return 0;  // the whole list: there is one node
  try {
    const topology::Host host = topology::discover();
    if (host.cores.empty()) return -1;
    const int node = host.cores.front().numa;
    const bool one = std::all_of(host.cores.begin(), host.cores.end(),
                                 [node](const topology::Core& core) { return core.numa == node; });
    return one ? host.numa[static_cast<std::size_t>(node)].os_index : -1;
  } catch (const core::RunError&) {
    return -1;
  }
}

}  // namespace tutti::comm
