// Queues of a group and what ends them: success, the first error, an abort by another rank.
#include "comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/hang_report.h"
#include "core/error.h"
#include "core/log.h"

namespace tutti::comm {

Communicator::State::State(std::shared_ptr<Engine> engine, std::string name,
                           std::vector<int> members, ControlBlock block)
    : engine_(std::move(engine)),
      name_(std::move(name)),
      members_(std::move(members)),
      block_(std::move(block)) {
  for (const int r : members_) {
    if (r != engine_->rank()) others_.push_back(r);
  }
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), engine_->rank()) -
                           members_.begin());
  messages_.resize(members_.size());
  bounces_.resize(members_.size() * kCredits);
  engine_->add(this);
}

Communicator::State::~State() {
  if (!closed_) engine_->remove(this);
}

void Communicator::State::close(const std::exception_ptr& error) {
  closed_ = true;
  engine_->remove(this);
  fail(error);
}

void Communicator::State::check_alive() const {
  if (error_) std::rethrow_exception(error_);
}

Pending Communicator::State::submit(std::shared_ptr<Operation> collective) {
  check_alive();
  collectives_.push_back(collective);
  progress();
  return Pending(std::move(collective));
}

Pending Communicator::State::submit_send(std::shared_ptr<Operation> send, int peer) {
  check_alive();
  sends_[peer].push_back(send);
  progress();
  return Pending(std::move(send));
}

Pending Communicator::State::submit_recv(std::shared_ptr<Operation> recv, int peer, int tag) {
  check_alive();
  recvs_[{peer, tag}].push_back(recv);
  progress();
  return Pending(std::move(recv));
}

template <class Visit>
void Communicator::State::for_each_head(Visit&& visit) {
  if (!collectives_.empty()) visit(*collectives_.front());
  for (auto& [peer, queue] : sends_) {
    if (!queue.empty()) visit(*queue.front());
  }
  for (auto& [key, queue] : recvs_) {
    if (!queue.empty()) visit(*queue.front());
  }
}

bool Communicator::State::run(Queue& queue) {
  bool moved = false;
  while (!queue.empty()) {
    const Progress progress = queue.front()->step();
    if (progress == Progress::Waiting) break;
    moved = true;
    if (progress != Progress::Done) continue;
    queue.front()->finish();
    queue.pop_front();
  }
  return moved;
}

bool Communicator::State::progress() {
  if (error_) return false;
  const auto alive = shared_from_this();  // the last operation may hold the last reference
  bool moved = false;
  try {
    moved |= run(collectives_);
    for (auto& [peer, queue] : sends_) moved |= run(queue);
    for (auto& [key, queue] : recvs_) moved |= run(queue);
  } catch (const core::PeerError& error) {
    abort(error.rank(), error.what());
    fail(std::current_exception());
  } catch (const std::exception& error) {
    abort(engine_->rank(), fmt::format("rank {} failed: {}", engine_->rank(), error.what()));
    fail(std::current_exception());
  }
  return moved || error_;
}

void Communicator::State::fail(const std::exception_ptr& error) {
  if (!error_) error_ = error;
  // Emptied first: what an operation holds may include the last reference to this group.
  const Queue collectives = std::exchange(collectives_, {});
  const auto sends = std::exchange(sends_, {});
  const auto recvs = std::exchange(recvs_, {});
  for (const auto& operation : collectives) operation->fail(error_);
  for (const auto& [peer, queue] : sends) {
    for (const auto& operation : queue) operation->fail(error_);
  }
  for (const auto& [key, queue] : recvs) {
    for (const auto& operation : queue) operation->fail(error_);
  }
}

void Communicator::State::abort(int culprit, const std::string& text) {
  if (block_.ranks() == 0) return;
  block_.abort(culprit, text);
  wake_members();
}

void Communicator::State::check_abort() {
  if (error_ || block_.ranks() == 0 || !block_.any_abort()) return;
  const auto abort = block_.aborted();
  fail(std::make_exception_ptr(core::PeerError(abort->culprit, abort->text)));
}

void Communicator::State::check_waits() {
  if (error_) return;
  try {
    for_each_head([this](Operation& operation) { check_wait(operation); });
  } catch (const core::PeerError& error) {
    abort(error.rank(), error.what());
    fail(std::current_exception());
  }
}

void Communicator::State::check_wait(Operation& operation) {
  for (const int r : operation.missing()) {
    const int peer = members_[r];
    if (!engine_->peers().left(peer)) continue;
    // Its last flag may have come between the first look and the farewell: look again.
    const auto still = operation.missing();
    if (std::find(still.begin(), still.end(), r) == still.end()) continue;
    throw core::PeerError(
        peer,
        fmt::format("rank {} has left the run while rank {} waits for it in {} of group {}{}. "
                    "It ended early or issued fewer operations than the others.",
                    peer, engine_->rank(), operation_title(operation), name_,
                    quoted_label(operation)));
  }
  const double timeout_s = engine_->options().timeout_s;
  const double waited_s = operation.asked_for().count();
  if (waited_s >= timeout_s) {
    const HangReport report = hang_report(operation);
    throw core::PeerError(report.culprit, report.text);
  }
  if (waited_s >= std::min(0.1 * timeout_s, 30.0) && operation.first_warning()) {
    core::log::warn("{}", hang_report(operation).text);
  }
}

void Communicator::State::publish(OpDescriptor& mine, std::uint32_t number) {
  RankLines::Diary& diary = block_.lines(rank_).diary;
  diary.entered.store(number, std::memory_order_relaxed);
  diary.entered_at.store(ticks(), std::memory_order_relaxed);
  mine.seq.store(number);
  wake_members();
}

void Communicator::State::post_step() {
  block_.lines(rank_).steps.done.store(++steps_);
  wake_members();
}

void Communicator::State::note_done(std::uint32_t number) {
  RankLines::Diary& diary = block_.lines(rank_).diary;
  diary.done.store(number, std::memory_order_relaxed);
  diary.done_at.store(ticks(), std::memory_order_relaxed);
}

std::byte* Communicator::State::staging() {
  if (!staging_) staging_ = engine_->arena().allocate(2 * kChunkBytes);
  return staging_.get();
}

}  // namespace tutti::comm
