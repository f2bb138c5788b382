// An operation under way. A value handle; copies mean the same operation.
#pragma once

#include <memory>
#include <utility>

namespace tutti::comm {

class Operation;  // the resumable state machine behind it (comm/operation.h)

class Pending {
 public:
  Pending() = default;  // done from the start: what a group of one returns
  explicit Pending(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

  /// Whether it has ended, well or not; runs what can be run without waiting. Never throws.
  [[nodiscard]] bool done();

  /// Waits until it has ended, lending this thread to the engine. Throws core::PeerError (death,
  /// mismatch, deadline) with rank, operation, number and label; every further wait() throws the
  /// same.
  void wait();

 private:
  std::shared_ptr<Operation> operation_;
};

}  // namespace tutti::comm
