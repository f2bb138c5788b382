// What all groups of a process share: peers, arena, progress and waiting. No thread of its own: the
// threads that issue, test and wait run everybody's operations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/arena.h"
#include "comm/communicator.h"
#include "comm/control.h"
#include "comm/options.h"
#include "comm/peers.h"
#include "comm/ticks.h"

namespace tutti::comm {

class Operation;

class Engine {
 public:
  Engine(int rank, std::unique_ptr<Peers> peers, std::shared_ptr<MappingCache> mappings,
         const CommOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return peers_->size(); }
  [[nodiscard]] Peers& peers() { return *peers_; }
  [[nodiscard]] Arena& arena() { return *arena_; }
  [[nodiscard]] MappingCache& mappings() { return *mappings_; }
  [[nodiscard]] const CommOptions& options() const { return options_; }
  void set_options(const CommOptions& options) { options_ = options; }
  [[nodiscard]] const TickRate& tick_rate() const { return tick_rate_; }
  [[nodiscard]] const ControlBlock& world() const { return world_; }

  /// The world's control block: beds (who sleeps), activities, figures, the abort of the whole run.
  void set_world(ControlBlock block);

  /// Groups register while they live.
  void add(Communicator::State* group) { groups_.push_back(group); }
  void remove(Communicator::State* group) { std::erase(groups_, group); }

  /// Steps every operation that can move; true if any did. Errors stay with their operations.
  bool progress();

  /// One round for a caller that does not wait: progress, and a look at deaths and deadlines now
  /// and then.
  void poll(Operation& operation);
  void idle_poll();

  /// Lends this thread until the operation has ended.
  void wait(Operation& operation);

  /// To be called after each store to a flag that others wait for.
  void wake(const std::vector<int>& world_ranks) const;

  /// Ends the run for everybody. Any thread.
  void abort(int culprit, const std::string& text) const;

  /// Leaves in order: what is still under way fails, peers are told. Idempotent.
  void leave();

  /// Looks at abort words and, if the last time is long ago, at deaths, leavers and deadlines.
  void check(bool now);

 private:
  void sleep();
  void look_for_deaths();

  int rank_;
  std::unique_ptr<Peers> peers_;
  std::shared_ptr<MappingCache> mappings_;
  CommOptions options_;
  std::shared_ptr<Arena> arena_;
  TickRate tick_rate_;
  ControlBlock world_;
  std::vector<Communicator::State*> groups_;
  std::vector<int> others_;  // all world ranks but this
  bool crowded_ = false;     // more ranks than cores: spinning would only be in the way
  bool gone_ = false;
  core::Seconds last_look_{};
  unsigned polls_ = 0;
};

}  // namespace tutti::comm
