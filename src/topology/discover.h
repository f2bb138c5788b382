// What this process's host looks like, by hwloc and /proc.
#pragma once

#include "topology/cluster.h"

namespace tutti::topology {

/// This host as this process may use it: cores of its allowed set of CPUs, memory within its
/// control group. About 10 ms. Throws core::RunError if hwloc cannot look at the host.
Host discover();

/// Memory that processes of this host can still take: the smaller of /proc/meminfo's MemAvailable
/// and what the control group leaves. `total` likewise. Read from files below `root` ("/" but in
/// tests).
struct Memory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
};
Memory memory_of_host(const std::string& root = "/");

}  // namespace tutti::topology
