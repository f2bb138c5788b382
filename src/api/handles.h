// What the handles of tutti.h hold.
#pragma once

#include <map>
#include <string>

#include "backend/group.h"
#include "train/world.h"
#include "api/tutti/tutti.h"

namespace tutti {

struct Group::State {
  backend::Group group;    // gradients, and whatever the user calls
  backend::Group gathers;  // parameters: the same ranks, a queue of its own
};

struct World::State {
  explicit State(train::World joined);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Rank 0 serves the store and must not leave before the others have.
  ~State();

  Group group(const std::string& name, const std::vector<int>& ranks);

  train::World world;
  std::map<std::string, Group> groups;
  int exceptions;  // in flight when the world was made
};

}  // namespace tutti
