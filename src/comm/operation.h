// One operation under way: a state machine that runs whenever some thread lends itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/collective.h"
#include "comm/communicator.h"
#include "core/clock.h"

namespace tutti::comm {

class Engine;

enum class Progress {
  Waiting,  // for another rank
  Moved,    // did something and may be asked again at once
  Done,
};

/// Everything but ended() is called under the engine's lock.
class Operation {
 public:
  Operation(std::shared_ptr<Communicator::State> group, Collective kind, Label label);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Does what can be done without waiting, for some tens of microseconds at most: other threads
  /// want the lock. Throws what ends the operation.
  virtual Progress step() = 0;

  /// A look at the flag that it waits for, if that is cheap: false means that step() would wait.
  /// Never throws.
  [[nodiscard]] virtual bool may_go_on() const { return true; }

  /// Ranks of the group that it waits for just now.
  [[nodiscard]] virtual std::vector<int> missing() const = 0;

  /// "all_reduce (sum, bfloat16, 1025 elements)": one side of a mismatch.
  [[nodiscard]] virtual std::string signature() const = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  /// See Pending::source().
  [[nodiscard]] virtual int source() const { return -1; }

  [[nodiscard]] Communicator::State& group() const { return *group_; }
  [[nodiscard]] Collective kind() const { return kind_; }
  [[nodiscard]] std::string_view label() const { return label_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }

  /// Any thread: after true, all that the operation did can be seen.
  [[nodiscard]] bool ended() const { return ended_.load(std::memory_order_acquire); }
  [[nodiscard]] bool started() const { return number_ != 0; }
  void finish(std::uint64_t now);  // in ticks
  void fail(std::exception_ptr error);
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  /// The deadline counts from the first time that somebody asks for the result: how long this rank
  /// itself was busy elsewhere is not its peers' fault.
  void ask();
  /// Who asks for an operation asks for those before it in its queue as well.
  void ask_as(const Operation& behind);
  [[nodiscard]] core::Seconds asked_for() const;  // 0 if nobody asked
  bool first_warning() { return !std::exchange(warned_, true); }

 protected:
  void set_number(std::uint32_t number, std::uint64_t now);
  /// Makes the object serve another call (only when nobody else holds it).
  void renew(Communicator::State& group, Label label);

 private:
  std::shared_ptr<Communicator::State> group_;
  Collective kind_;
  std::string_view label_;
  std::uint32_t number_ = 0;  // in its group, from 1; 0: not begun
  std::size_t entry_ = 0;     // in the flight recorder
  std::atomic<bool> ended_ = false;
  bool warned_ = false;
  std::uint64_t asked_at_ = 0;  // in ticks; 0: nobody asked
  std::exception_ptr error_;
};

}  // namespace tutti::comm
