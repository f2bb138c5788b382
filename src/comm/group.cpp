// Queues of a group and what ends them: success, the first error, an abort by another rank.
#include "comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/collectives.h"
#include "comm/hang_report.h"
#include "core/error.h"
#include "core/log.h"

namespace tutti::comm {
namespace {

constexpr std::size_t kBriefBytes = std::size_t{256} << 10;  // one step's work at most
constexpr int kMostLooks = 50;                               // 1 to 2 us of pauses
// Whoever never waits must hear of aborts and signals all the same.
constexpr std::uint32_t kOperationsPerCheck = 256;

}  // namespace

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
  pipes_.resize(members_.size());
  bounces_.resize(members_.size() * kEnvelopes);
  const Engine::Lock lock(*engine_);
  std::vector<int> numa;
  for (const int r : members_) numa.push_back(engine_->peers().numa(r));
  map_ = group_map(numa);
  engine_->add(this);
}

Communicator::State::~State() {
  if (engine_->in_fork()) return;  // the lock may have been taken when the process was forked
  const Engine::Lock lock(*engine_);
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

// What is over within a microsecond needs no queue, no handle and no second turn of the lock: the
// thread that issues it looks for the others that long. Whatever takes longer is queued, as it is.
Pending Communicator::State::submit(std::shared_ptr<Operation> collective) {
  engine_->check_process();
  check_alive();
  if (collectives_.empty() && collective->bytes() <= kBriefBytes && engine_->may_linger()) {
    try {
      if (ends_at_once(*collective)) {
        end(*collective);
        if (number_ % kOperationsPerCheck == 0) engine_->check(false);
        return {};
      }
    } catch (...) {
      collectives_.push_back(collective);  // it fails as all that is under way
      engine_->count_queued(1);
      fail_with_current();
      return Pending(std::move(collective));
    }
  }
  return enqueue(collectives_, std::move(collective));
}

bool Communicator::State::ends_at_once(Operation& operation) {
  for (int looks = 0; looks < kMostLooks;) {
    switch (operation.step()) {
      case Progress::Done:
        return true;
      case Progress::Moved:
        looks = 0;
        break;
      case Progress::Waiting:
        do {
          pause();
        } while (++looks < kMostLooks && !operation.may_go_on());
        break;
    }
  }
  return false;
}

namespace {

// A small operation takes less time than the memory for a new one.
template <class T, class... Arguments>
std::shared_ptr<T> used_again(std::shared_ptr<T>& spare, Communicator::State& group,
                              Arguments&&... arguments) {
  const bool unused = spare && spare.use_count() == 1;
  // use_count() orders nothing; the copy counts up behind whoever counted down last, so what that
  // thread read of the operation comes before what renew() writes.
  std::shared_ptr<T> operation = unused ? spare : nullptr;
  if (operation) {
    operation->renew(group, std::forward<Arguments>(arguments)...);
  } else {
    operation = spare =
        std::make_shared<T>(group.shared_from_this(), std::forward<Arguments>(arguments)...);
  }
  return operation;
}

}  // namespace

Pending Communicator::State::submit_one_shot(const Signature& signature, Label label, Buffer io) {
  return submit(used_again(engine_->spares().one_shot, *this, signature, label, io));
}

Pending Communicator::State::submit_reduce(const Signature& signature, Label label,
                                           std::vector<std::size_t> bounds, Buffer io,
                                           ReduceStats* stats) {
  return submit(used_again(engine_->spares().reduce, *this, signature, label, std::move(bounds), io,
                           nullptr, stats));
}

Pending Communicator::State::submit_send(std::shared_ptr<Operation> send, int peer) {
  return enqueue(sends_[peer], std::move(send));
}

Pending Communicator::State::submit_recv(std::shared_ptr<Operation> recv, int peer, int tag) {
  return enqueue(recvs_[{peer, tag}], std::move(recv));
}

Pending Communicator::State::enqueue(Queue& queue, std::shared_ptr<Operation> operation) {
  engine_->check_process();
  check_alive();
  queue.push_back(operation);
  engine_->count_queued(1);
  advance();
  if (!operation->ended()) engine_->submitted();
  return Pending(std::move(operation));
}

template <class Visit>
void Communicator::State::for_each_queue(Visit&& visit) const {
  if (!collectives_.empty()) visit(collectives_);
  for (const auto& [peer, queue] : sends_) {
    if (!queue.empty()) visit(queue);
  }
  for (const auto& [key, queue] : recvs_) {
    if (!queue.empty()) visit(queue);
  }
}

bool Communicator::State::run(Queue& queue) {
  bool moved = false;
  while (!queue.empty()) {
    const Progress progress = queue.front()->step();
    if (progress == Progress::Waiting) break;
    moved = true;
    if (progress != Progress::Done) break;  // others want the lock, or their turn
    const std::shared_ptr<Operation> done = std::move(queue.front());
    queue.pop_front();
    engine_->count_queued(-1);
    if (&queue == &collectives_) {
      end(*done);
    } else {
      done->finish(ticks());
    }
  }
  return moved;
}

void Communicator::State::end(Operation& operation) {
  const std::uint64_t now = ticks();
  note_done(operation.number(), now);
  operation.finish(now);  // from here on its issuer may free what it holds
  // The others have read what lies in the next slot: it comes back while the caller computes.
  own_line(&block_.descriptor(rank_, number_ + 1));
  own_line(&block_.beside(rank_, number_ + 1));
}

bool Communicator::State::progress() {
  const auto alive = weak_from_this().lock();  // the last operation may hold the last reference
  return alive && advance();                   // else its destructor waits for the lock
}

bool Communicator::State::advance() {
  if (error_) return false;
  bool moved = false;
  try {
    moved |= run(collectives_);
    for (auto& [peer, queue] : sends_) moved |= run(queue);
    for (auto& [key, queue] : recvs_) moved |= run(queue);
  } catch (...) {
    fail_with_current();
  }
  return moved || error_;
}

// In a handler: what was thrown becomes the group's error, here and on the other ranks.
void Communicator::State::fail_with_current() {
  try {
    throw;
  } catch (const core::PeerError& error) {
    abort(error.rank(), error.what());
    fail(std::current_exception());
  } catch (const std::exception& error) {
    abort(engine_->rank(), fmt::format("rank {} failed: {}", engine_->rank(), error.what()));
    fail(std::current_exception());
  }
}

void Communicator::State::fail(const std::exception_ptr& error) {
  if (!error_) {
    error_ = error;
    if (!collectives_.empty() || !sends_.empty() || !recvs_.empty()) {
      engine_->dump_flight(fmt::format("group {} failed", name_));
    }
  }
  // Emptied first: what an operation holds may include the last reference to this group.
  const Queue collectives = std::exchange(collectives_, {});
  const auto sends = std::exchange(sends_, {});
  const auto recvs = std::exchange(recvs_, {});
  const auto end = [this](const Queue& queue) {
    engine_->count_queued(-static_cast<int>(queue.size()));
    for (const auto& operation : queue) operation->fail(error_);
  };
  end(collectives);
  for (const auto& [peer, queue] : sends) end(queue);
  for (const auto& [key, queue] : recvs) end(queue);
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
    for_each_queue([this](const Queue& queue) {
      Operation& head = *queue.front();
      for (const auto& operation : queue) head.ask_as(*operation);
      check_wait(head);
    });
  } catch (const core::PeerError& error) {
    abort(error.rank(), error.what());
    fail(std::current_exception());
  }
}

void Communicator::State::check_wait(Operation& operation) {
  const std::vector<int> missing = operation.missing();
  if (missing.empty()) return;  // all have come: it goes on with the next step, late or not
  for (const int r : missing) {
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

void Communicator::State::publish(OpDescriptor& mine, std::uint32_t number, std::uint64_t now) {
  RankLines::Diary& diary = block_.lines(rank_).diary;
  diary.entered.store(number, std::memory_order_relaxed);
  diary.entered_at.store(now, std::memory_order_relaxed);
  mine.seq.store(number);
  wake_members();
}

void Communicator::State::post_mark(std::uint64_t mark) {
  block_.lines(rank_).marks.at.store(mark);
  wake_members();
}

void Communicator::State::refuse_mark(int rank, std::uint64_t at) const {
  throw core::PeerError(
      members_[rank],
      fmt::format("rank {} is said to be at point {} of operation #{} of group {} while this rank "
                  "is in #{}: its control memory is damaged",
                  members_[rank], at & 0xffffffffU, at >> 32, name_, number_));
}

void Communicator::State::note_done(std::uint32_t number, std::uint64_t now) {
  RankLines::Diary& diary = block_.lines(rank_).diary;
  diary.done.store(number, std::memory_order_relaxed);
  diary.done_at.store(now, std::memory_order_relaxed);
}

std::byte* Communicator::State::staging() {
  if (!staging_) staging_ = engine_->arena().allocate(2 * kChunkBytes);
  return staging_.get();
}

std::byte* Communicator::State::scratch(std::uint32_t number, std::size_t bytes) {
  Scratch& mine = scratch_[number & 1];
  if (mine.bytes < bytes) {
    mine.memory = engine_->arena().allocate(bytes);
    mine.bytes = bytes;
  }
  return mine.memory.get();
}

}  // namespace tutti::comm
