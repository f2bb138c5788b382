// The list writer of schedule/team.h.
#include "schedule/team.h"

namespace tutti::schedule {

void StepBuilder::next() {
  base_ = list_.empty() ? 0 : list_.back().step + 1;
  round_ = 0;
}

void StepBuilder::add(CollectiveStep entry) {
  entry.step = base_ + round_;
  list_.push_back(entry);
}

void StepBuilder::publish() { add({.verb = Verb::Publish, .mark = ++mark_}); }

void StepBuilder::await(const Peers& peers, int mark) {
  add({.verb = Verb::Await, .peers = peers, .mark = mark});
}

void StepBuilder::sync(const Peers& peers) {
  next();
  publish();
  next();
  await(peers, mark_);
  next();
}

}  // namespace tutti::schedule
