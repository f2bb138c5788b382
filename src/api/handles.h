// What the handles of tutti.h hold.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/tutti/tutti.h"
#include "backend/group.h"
#include "comm/world.h"
#include "train/world.h"

namespace tutti {

struct [[gnu::visibility("hidden")]] Group::State {
  backend::Group group;    // gradients, and whatever the user calls
  backend::Group gathers;  // parameters: the same ranks, a queue of its own
  std::vector<int> ranks;  // of the world
  comm::World* world;      // makes groups of fewer ranks; outlives them
};

struct [[gnu::visibility("hidden")]] World::State {
  explicit State(train::World joined);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Rank 0 serves the store and must not leave before the others have.
  ~State();

  /// Throws core::ConfigError for a name that means other ranks already.
  Group group(const std::string& name, const std::vector<int>& ranks);

  train::World world;
  std::map<std::string, Group> groups;
  int exceptions;  // in flight when the world was made
};

}  // namespace tutti
