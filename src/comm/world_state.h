// The world's shared state: the engine and how groups are made from it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/engine.h"
#include "comm/group.h"
#include "comm/world.h"

namespace tutti::comm {

class World::State {
 public:
  State(std::shared_ptr<Engine> engine, double timeout_s);
  ~State();  // leaves in order

  [[nodiscard]] Engine& engine() const { return *engine_; }

  /// Gets the world's control block (rank 0 makes it).
  void join();
  /// The first barrier, with the deadline of wire-up, and the probe.
  void meet();
  [[nodiscard]] Communicator group(const std::string& name, const std::vector<int>& world_ranks);

 private:
  ControlBlock control_block(const std::string& name, const std::vector<int>& members, int credits);

  std::shared_ptr<Engine> engine_;
  double timeout_s_;
  std::map<std::uint64_t, std::uint64_t>
      made_;  // how often a group of that name and ranks was made
};

}  // namespace tutti::comm
