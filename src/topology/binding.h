// Which CPUs each rank of a host may run on. Pure: the launcher sets the masks.
#pragma once

#include <string_view>
#include <vector>

#include "topology/cluster.h"

namespace tutti::topology {

struct Binding {
  std::vector<std::vector<int>> cpus;  // per local rank, ascending; empty: no mask of its own
  int threads = 1;                     // per rank: cores / local ranks, at least 1
  bool shared = false;                 // more ranks than cores: several ranks use one core
};

/// `policy`:
///   "core"  each rank gets its own run of neighbouring cores; if there are more ranks than cores
///   but enough hardware
///           threads, its own hardware threads; beyond that ranks are dealt over the CPUs in turn.
///   "numa"  each rank gets all cores of one NUMA node, ranks being spread evenly over the nodes.
///   "none"  no masks.
/// Every rank has the same number of threads, so that none waits for a slower one.
/// Throws std::invalid_argument if local_ranks < 1, the host has no cores, or the policy is none of
/// these.
Binding assign(const Host& host, int local_ranks, std::string_view policy);

}  // namespace tutti::topology
