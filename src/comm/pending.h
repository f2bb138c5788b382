// An operation under way. A value handle; copies mean the same operation.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace tutti::comm {

class Operation;  // the resumable state machine behind it (comm/operation.h)

class Pending {
 public:
  Pending() = default;  // done from the start: what a group of one returns
  explicit Pending(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

  /// One handle for several operations, of one group or of many (coalesced sends and receives).
  /// wait() waits for all of them and throws the first error in their order.
  static Pending all(std::vector<Pending> parts);

  /// Whether it has ended, well or not; runs what can be run without waiting. Never throws for the
  /// operation's own error.
  [[nodiscard]] bool done();

  /// Waits until it has ended, lending this thread to the engine. Throws core::PeerError (death,
  /// mismatch, deadline) with rank, operation, number and label; every further wait() throws the
  /// same. Throws core::RunError in a process that was forked after wire-up.
  void wait();

  /// Once it is done: the rank a receive from any source took its message from; else -1.
  [[nodiscard]] int source() const;

 private:
  void end();
  void rethrow() const;

  std::shared_ptr<Operation> operation_;
  std::vector<Pending> parts_;
};

}  // namespace tutti::comm
