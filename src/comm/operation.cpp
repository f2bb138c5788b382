// What all operations have in common, and the handle that callers hold.
#include "comm/operation.h"

#include "comm/engine.h"
#include "comm/group.h"

namespace tutti::comm {

Operation::Operation(std::shared_ptr<Communicator::State> group, Collective kind, Label label)
    : group_(std::move(group)), kind_(kind), label_(label.text) {
  entry_ = group_->engine().recorder().begin(kind_, group_->name(), label_);
}

void Operation::renew(Communicator::State& group, Label label) {
  if (group_.get() != &group) group_ = group.shared_from_this();
  label_ = label.text;
  number_ = 0;
  asked_at_ = 0;
  warned_ = false;
  error_ = nullptr;
  ended_.store(false, std::memory_order_relaxed);
  entry_ = group_->engine().recorder().begin(kind_, group_->name(), label_);
}

void Operation::set_number(std::uint32_t number, std::uint64_t now) {
  number_ = number;
  group_->engine().recorder().start(entry_, number, bytes(), now);
}

void Operation::finish(std::uint64_t now) {
  group_->engine().recorder().end(entry_, true, now);
  ended_.store(true, std::memory_order_release);
}

void Operation::fail(std::exception_ptr error) {
  group_->engine().recorder().end(entry_, false, ticks());
  error_ = std::move(error);
  ended_.store(true, std::memory_order_release);
}

void Operation::ask() {
  if (asked_at_ == 0) asked_at_ = ticks();
}

void Operation::ask_as(const Operation& behind) {
  if (asked_at_ == 0) asked_at_ = behind.asked_at_;
}

core::Seconds Operation::asked_for() const {
  if (asked_at_ == 0) return core::Seconds(0);
  return core::Seconds(group_->engine().tick_rate().seconds_since(asked_at_));
}

Pending Pending::all(std::vector<Pending> parts) {
  Pending pending;
  pending.parts_ = std::move(parts);
  return pending;
}

bool Pending::done() {
  if (operation_ && !operation_->ended()) operation_->group().engine().poll(*operation_);
  bool all = !operation_ || operation_->ended();
  for (Pending& part : parts_) all &= part.done();
  return all;
}

void Pending::end() {
  if (operation_ && !operation_->ended()) operation_->group().engine().wait(*operation_);
  for (Pending& part : parts_) part.end();
}

void Pending::rethrow() const {
  if (operation_) operation_->rethrow();
  for (const Pending& part : parts_) part.rethrow();
}

void Pending::wait() {
  end();
  rethrow();
}

int Pending::source() const { return operation_ ? operation_->source() : -1; }

}  // namespace tutti::comm
