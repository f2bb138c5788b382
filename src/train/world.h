// Joining the job: the store, then all ranks wired up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/options.h"
#include "comm/store.h"
#include "comm/world.h"
#include "launch/environment.h"

namespace tutti::train {

struct World {
  launch::JoinOptions join;
  std::unique_ptr<comm::Store> store;  // null for one rank
  comm::World comm;

  [[nodiscard]] int rank() const { return join.rank; }
  [[nodiscard]] int ranks() const { return join.ranks; }
};

/// Shared memory reserved at once, for parameters and gradients.
struct ArenaOptions {
  std::size_t bytes = 0;
  bool require_huge_pages = false;  // an error where the host does not give them
};

/// How long ranks wait for each other before the first operation; each of the store, the comparison
/// and the connections has so much.
struct WireUp {
  double seconds = 60;
};

/// Connects to the store, makes sure that all ranks mean the same job, and wires up. `alike`: what
/// must be equal on every rank, a line each. Throws core::ConfigError with the first line that is
/// not.
World join(const launch::JoinOptions& options, const std::vector<std::string>& alike,
           const comm::CommOptions& comm, const ArenaOptions& arena, WireUp patience = {});

/// A further connection to the same store, for another thread. Null for one rank.
std::unique_ptr<comm::Store> connect_again(const launch::JoinOptions& options,
                                           WireUp patience = {});

}  // namespace tutti::train
