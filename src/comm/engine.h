// What all groups of a process share: peers, arena, progress and waiting.
//
// Whoever holds the lock runs everybody's operations: a thread that issues, tests or waits, or the
// executor thread, which steps in when operations are under way and no thread waits.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/arena.h"
#include "comm/communicator.h"
#include "comm/control.h"
#include "comm/fork_guard.h"
#include "comm/options.h"
#include "comm/peers.h"
#include "comm/recorder.h"
#include "comm/ticks.h"

namespace tutti::comm {

class OneShotOperation;
class Operation;
class ReduceOperation;

class Engine {
 public:
  Engine(int rank, std::unique_ptr<Peers> peers, std::shared_ptr<MappingCache> mappings,
         const CommOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Held while groups, operations or peers are touched. Recursive: an operation that ends may
  /// hold the last reference to its group, which then leaves the engine.
  class Lock {
   public:
    explicit Lock(Engine& engine) : engine_(engine) { lock(); }
    ~Lock() { engine_.mutex_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void unlock() { engine_.mutex_.unlock(); }
    void lock();
    /// Lets others in, if any wait: for whoever runs operations in a loop.
    void give_way();

   private:
    Engine& engine_;
  };

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return peers_->size(); }
  [[nodiscard]] Peers& peers() { return *peers_; }
  [[nodiscard]] Arena& arena() { return *arena_; }
  [[nodiscard]] MappingCache& mappings() { return *mappings_; }
  [[nodiscard]] const CommOptions& options() const { return options_; }
  void set_options(const CommOptions& options);
  /// The algorithm that the options force, if any.
  [[nodiscard]] std::optional<schedule::Algorithm> forced() const { return forced_; }
  [[nodiscard]] const TickRate& tick_rate() const { return tick_rate_; }
  [[nodiscard]] const ControlBlock& world() const { return world_; }
  [[nodiscard]] const ChoiceTable& table() const { return table_; }
  void set_table(ChoiceTable table);
  [[nodiscard]] Recorder& recorder() { return recorder_; }
  /// Whether more ranks run here than cores: then spinning would only be in the way.
  [[nodiscard]] bool crowded() const { return crowded_; }

  /// The world's control block: beds (who sleeps), activities, figures, the abort of the whole run;
  /// and the world ranks that share it. A later one replaces it (shrink, grow): groups made before
  /// end with `ended`.
  void set_world(ControlBlock block, const std::vector<int>& members,
                 const std::exception_ptr& ended = nullptr);
  [[nodiscard]] const std::vector<int>& members() const { return members_; }

  // Under the lock:
  void add(Communicator::State* group) { groups_.push_back(group); }
  void remove(Communicator::State* group) { std::erase(groups_, group); }
  /// All-reduces to be used again when nobody else holds them; may be null.
  struct Spares {
    std::shared_ptr<OneShotOperation> one_shot;
    std::shared_ptr<ReduceOperation> reduce;
  };
  [[nodiscard]] Spares& spares() { return spares_; }
  /// Whether a caller may hold the lock for a microsecond to see a small operation through.
  [[nodiscard]] bool may_linger() const {
    return !crowded_ && claims_.load(std::memory_order_relaxed) == 0;
  }
  void count_queued(int change) { queued_ += change; }
  /// Throws core::RunError in a process that was forked after wire-up.
  void check_process() const;
  [[nodiscard]] bool in_fork() const { return fork_guard_.in_fork(); }
  /// After an operation was queued: calls the executor thread if it is not about.
  void submitted();
  /// Steps every operation that can move; true if any did. Errors stay with their operations.
  bool progress();

  /// One round for a caller that does not wait: progress, and a look at deaths and deadlines now
  /// and then.
  void poll(Operation& operation);
  void idle_poll();

  /// Lends this thread until the operation has ended.
  void wait(Operation& operation);

  /// To be called after each store to a flag that others wait for.
  void wake(const std::vector<int>& world_ranks) const {
    for (const int r : world_ranks) wake(r);
  }
  void wake(int world_rank) const;

  /// Ends the run for everybody. Any thread.
  void abort(int culprit, const std::string& text) const;

  /// Leaves in order: what is still under way fails, peers are told. Idempotent.
  void leave();

  /// Looks at abort words and, if the last time is long ago, at deaths, leavers and deadlines.
  void check(bool now);

  /// Writes the flight recorder where the options say (see CommOptions::flight_file).
  void dump_flight(const std::string& why);

 private:
  void count_members();
  void sleep(Lock& lock);
  void delay(Lock& lock);
  std::uint32_t arm();
  void disarm();
  void look_for_deaths();
  void serve(const std::stop_token& stop);
  void serve_once(Lock& lock);

  int rank_;
  std::unique_ptr<Peers> peers_;
  std::shared_ptr<MappingCache> mappings_;
  CommOptions options_;
  std::optional<schedule::Algorithm> forced_;
  std::shared_ptr<Arena> arena_;
  TickRate tick_rate_;
  ControlBlock world_;
  ChoiceTable table_;
  Recorder recorder_;
  ForkGuard fork_guard_;

  std::recursive_mutex mutex_;
  std::atomic<int> claims_ = 0;  // threads that wait for the lock
  std::vector<Communicator::State*> groups_;
  std::vector<int> members_, others_;  // world ranks of this epoch, with and without this one
  std::vector<ControlBlock> retired_;  // of earlier epochs: a thread may still sleep there
  bool crowded_ = false;
  std::uint64_t delays_ = 0;  // state of the generator behind CommOptions::delays; 0: none
  bool gone_ = false;
  core::Seconds last_look_{};
  unsigned polls_ = 0;
  Spares spares_;
  int queued_ = 0;   // operations of all groups that have not ended
  int driving_ = 0;  // threads in wait()
  std::uint32_t dumps_ = 0;

  // The executor thread.
  bool serving_ = false;                  // it runs
  bool dozing_ = false;                   // it waits for `calls_` because nothing was under way
  bool parked_ = false;                   // it sleeps on the bed: keep that armed
  std::atomic<std::uint32_t> calls_ = 0;  // a futex
  std::jthread thread_;
};

}  // namespace tutti::comm
