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
  State(std::shared_ptr<Engine> engine, const WireUpOptions& options);
  ~State();  // leaves in order

  [[nodiscard]] Engine& engine() const { return *engine_; }

  /// Gets the control block of the world's first epoch, or of the one that a joiner comes into
  /// (the lowest of `makers` makes it).
  void join(const std::vector<int>& members, const std::vector<int>& makers, std::uint32_t epoch);
  /// The first barrier, with the deadline of wire-up, the probe and the table of algorithms
  /// (`maker`'s).
  void meet(int maker);
  [[nodiscard]] Communicator group(const std::string& name, const std::vector<int>& world_ranks);
  void shrink(const std::vector<int>& survivors);
  void grow(Store& store, const std::vector<int>& joiners);
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }

 private:
  /// Made by `creator`, for `members`, with room for `ranks`.
  ControlBlock control_block(const std::string& name, const std::vector<int>& members, int creator,
                             int ranks, int credits);
  /// Replaces the world's block by one of the next epoch and meets there.
  void next_epoch(const std::vector<int>& members, const std::vector<int>& makers, const char* why);
  void check_world() const;  // throws if the run has been aborted
  Communicator everybody();
  void agree_on_table(Communicator& world, int maker);

  std::shared_ptr<Engine> engine_;
  WireUpOptions options_;
  std::uint32_t epoch_ = 0;
  std::uint32_t world_epoch_ = 0;  // of the engine's block: behind while the next one is made
  std::map<std::uint64_t, std::uint64_t>
      made_;  // how often a group of that name and ranks was made
};

}  // namespace tutti::comm
