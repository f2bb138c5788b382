// What all operations have in common, and the handle that callers hold.
#include "comm/operation.h"

#include "comm/engine.h"
#include "comm/group.h"

namespace tutti::comm {

Operation::Operation(std::shared_ptr<Communicator::State> group, Collective kind, Label label)
    : group_(std::move(group)), kind_(kind), label_(label.text) {}

void Operation::ask() {
  if (asked_) return;
  asked_ = true;
  asked_at_ = core::now();
}

core::Seconds Operation::asked_for() const {
  return asked_ ? core::now() - asked_at_ : core::Seconds(0);
}

bool Pending::done() {
  if (!operation_) return true;
  if (!operation_->ended()) operation_->group().engine().poll(*operation_);
  return operation_->ended();
}

void Pending::wait() {
  if (!operation_) return;
  if (!operation_->ended()) operation_->group().engine().wait(*operation_);
  operation_->rethrow();
}

}  // namespace tutti::comm
