// The hosts of a job as plain data: made by discover(), by hand in tests, or read from JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace tutti::topology {

/// One physical core, with the hardware threads of it that this process may use.
struct Core {
  std::vector<int> cpus;  // operating system's numbers, ascending, at least one
  int numa = 0;           // index into Host::numa
  friend bool operator==(const Core&, const Core&) = default;
};

/// Memory with the same distance to some cores.
struct NumaNode {
  int os_index = 0;
  std::uint64_t memory_bytes = 0;  // 0: unknown
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

/// Data or unified cache of one level.
struct Cache {
  int level = 1;
  std::uint64_t bytes = 0;  // of one instance
  int instances = 1;        // that this process's cores use
  friend bool operator==(const Cache&, const Cache&) = default;
};

struct Host {
  std::string name;
  std::string boot_id;  // two processes are on one host if theirs are equal
  std::string processor;
  std::vector<Core> cores;  // those in the allowed set of CPUs, neighbours side by side
  std::vector<NumaNode> numa;
  std::vector<Cache> caches;
  std::uint64_t memory_total_bytes = 0;      // the control group's limit if that is smaller
  std::uint64_t memory_available_bytes = 0;  // what processes can still take without swapping
  friend bool operator==(const Host&, const Host&) = default;
};

struct Cluster {
  std::vector<Host> hosts;
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

core::Json to_json(const Cluster& cluster);
/// Throws core::ConfigError if a key is missing or of another type.
Cluster cluster_from_json(const core::Json& json);

}  // namespace tutti::topology
