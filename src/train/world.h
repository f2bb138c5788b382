// Joining the job: the store, then all ranks wired up.
#pragma once

#include <memory>

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

/// Connects to the store and wires up. `arena_bytes`: shared memory reserved at once (parameters
/// and gradients).
World join(const launch::JoinOptions& options, const comm::CommOptions& comm,
           std::size_t arena_bytes);

/// A further connection to the same store, for another thread. Null for one rank.
std::unique_ptr<comm::Store> connect_again(const launch::JoinOptions& options);

}  // namespace tutti::train
