// Progress and the waiting ladder: spin, yield, sleep.
//
// No wake-up is lost. A rank's bed is a counter that is odd while someone of the rank sleeps. Who
// goes to sleep (1) makes it odd, (2) looks at all flags once more, (3) sleeps if nothing moved, as
// long as the bed has the value of (1) (the kernel compares). A rank that posts (a) stores its
// flag, (b) loads the others' beds, making odd ones even and waking all who sleep there. All four
// are sequentially consistent, so in their one total order either (1) comes before (b), and the
// sleeper is woken (or the compare in (3) fails), or (b) before (1), hence (a) before (2), and the
// sleeper sees the flag. The bed only grows, so a value cannot come back between (1) and (3). The
// time slice of the sleep is for deaths and deadlines, not for this. The model checker's version of
// the argument: docs/design/0007-flag-protocol.md.
#include "comm/engine.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "comm/collectives.h"
#include "comm/group.h"
#include "comm/operation.h"
#include "core/error.h"
#include "core/log.h"
#include "core/thread.h"

namespace tutti::comm {
namespace {

constexpr int kSpins = 2000;
constexpr int kLooks = 8;  // at the flag alone, between two looks at everything
constexpr int kYields = 50;
constexpr std::uint64_t kSpinTicks = 50'000;  // about 20 us: spinning longer never paid
constexpr long kSliceNs = 50'000'000;
constexpr core::Seconds kLookEvery(0.02);
// The executor looks for work this often while there was some lately; then it waits to be called.
constexpr long kGlanceNs = 2'000'000;
constexpr core::Seconds kLately(0.05);

// The number is the kernel's. A bed is shared between processes, so no FUTEX_PRIVATE_FLAG.
void futex_sleep(Word& word, std::uint32_t while_it_is, long ns) {
  const timespec slice = {ns / 1'000'000'000, ns % 1'000'000'000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, while_it_is, &slice,
            nullptr, 0);
}

void futex_wake(Word& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

}  // namespace

void Engine::Lock::lock() {
  if (engine_.mutex_.try_lock()) return;
  engine_.check_process();  // a fork may have taken the lock with it, and nobody to give it back
  engine_.claims_.fetch_add(1, std::memory_order_relaxed);
  engine_.mutex_.lock();
  engine_.claims_.fetch_sub(1, std::memory_order_relaxed);
}

void Engine::Lock::give_way() {
  if (engine_.claims_.load(std::memory_order_relaxed) == 0) return;
  unlock();
  ::sched_yield();
  lock();
}

Engine::Engine(int rank, std::unique_ptr<Peers> peers, std::shared_ptr<MappingCache> mappings,
               const CommOptions& options)
    : rank_(rank),
      peers_(std::move(peers)),
      mappings_(std::move(mappings)),
      options_(options),
      forced_(forced_algorithm(options)),
      dumps_(dump_signals()) {
  arena_ =
      std::make_shared<Arena>(mappings_, [this](std::uint16_t segment, int fd, std::size_t bytes) {
        Message message;
        message.kind = MessageKind::Segment;
        message.number = segment;
        message.bytes = bytes;
        peers_->tell_all(message, fd);
      });
  for (int r = 0; r < peers_->size(); ++r) {
    members_.push_back(r);
    if (r != rank_) others_.push_back(r);
  }
  count_members();
}

// A launcher that binds gives each rank cores of its own, so the mask alone does not tell.
void Engine::count_members() {
  crowded_ = static_cast<long>(members_.size()) > ::sysconf(_SC_NPROCESSORS_ONLN);
}

Engine::~Engine() { leave(); }

void Engine::set_options(const CommOptions& options) {
  const Lock lock(*this);
  options_ = options;
  forced_ = forced_algorithm(options);
}

void Engine::set_table(ChoiceTable table) {
  const Lock lock(*this);
  table_ = std::move(table);
}

void Engine::set_world(ControlBlock block, const std::vector<int>& members,
                       const std::exception_ptr& ended) {
  const Lock lock(*this);
  if (ended) {
    while (!groups_.empty()) groups_.back()->close(ended);
    spares_ = {};
  }
  if (world_.ranks() > 0) {
    wake(rank_);
    retired_.push_back(world_);
  }
  world_ = std::move(block);
  world_.lines(rank_).diary.pid.store(static_cast<std::uint32_t>(::getpid()));
  members_ = others_ = members;
  std::erase(others_, rank_);
  count_members();
}

void Engine::check_process() const {
  if (!fork_guard_.in_fork()) return;
  throw core::RunError(fmt::format(
      "this process was forked from rank {} after wire-up: only that process may communicate. Fork "
      "before wire-up, or start helpers with exec.",
      rank_));
}

bool Engine::progress() {
  bool moved = false;
  for (std::size_t i = 0; i < groups_.size();) {
    Communicator::State* const group = groups_[i];
    moved |= group->progress();
    // A group goes when its last operation has ended and nobody holds it: the next one moved up.
    if (i < groups_.size() && groups_[i] == group) ++i;
  }
  return moved;
}

void Engine::wake(int world_rank) const {
  Word& bed = world_.lines(world_rank).bed.state;
  std::uint32_t state = bed.load();
  if ((state & 1) != 0 && bed.compare_exchange_strong(state, state + 1)) futex_wake(bed);
}

// Makes the own bed odd unless it is; returns an odd value that it has had. One that it is yet to
// get will not do: another thread may arm the bed to just that value and see the news, which the
// poster did not think worth a wake-up as the bed was even.
std::uint32_t Engine::arm() {
  Word& bed = world_.lines(rank_).bed.state;
  std::uint32_t state = bed.load();
  while ((state & 1) == 0 && !bed.compare_exchange_weak(state, state + 1)) {
  }
  return state | 1;
}

void Engine::disarm() {
  Word& bed = world_.lines(rank_).bed.state;
  std::uint32_t state = bed.load(std::memory_order_relaxed);
  if ((state & 1) != 0) bed.compare_exchange_strong(state, state + 1);
}

void Engine::sleep(Lock& lock) {
  Word& bed = world_.lines(rank_).bed.state;
  const std::uint32_t state = arm();
  if (progress()) return;
  lock.unlock();
  futex_sleep(bed, state, kSliceNs);
  lock.lock();
}

// Every eighth time on average up to two milliseconds, the lock given away: operations then meet in
// every order that they can.
void Engine::delay(Lock& lock) {
  if (options_.delays == 0) return;
  if (delays_ == 0)
    delays_ = options_.delays * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(rank_) + 1;
  delays_ ^= delays_ << 13;
  delays_ ^= delays_ >> 7;
  delays_ ^= delays_ << 17;
  if (delays_ % 8 != 0) return;
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(delays_ / 8 % 2000));
  lock.lock();
}

void Engine::wait(Operation& operation) {
  Lock lock(*this);
  delay(lock);
  check_process();
  ++driving_;
  int idle = 0;
  std::uint64_t idle_since = 0;
  while (!operation.ended()) {
    if (operation.group().advance() || (idle % 16 == 15 && progress())) {
      idle = 0;
      lock.give_way();
      continue;
    }
    if (operation.ended()) break;
    if (idle == 0) {
      idle_since = ticks();
      operation.ask();
    }
    ++idle;
    if (!crowded_ && idle <= kSpins && ticks() - idle_since < kSpinTicks) {
      for (int looks = 0; looks < kLooks && !operation.may_go_on(); ++looks) pause();
      pause();
      lock.give_way();
    } else if (crowded_ && idle <= kYields) {
      lock.unlock();
      ::sched_yield();
      lock.lock();
    } else {
      sleep(lock);
      check(false);
    }
    if (idle % 64 == 0) check(false);
  }
  --driving_;
  if (driving_ > 0) return;
  if (parked_ && queued_ > 0) {
    arm();  // the executor sleeps on: from here on posts wake it
    progress();
  } else {
    disarm();
  }
}

void Engine::poll(Operation& operation) {
  Lock lock(*this);
  check_process();
  operation.ask();
  if (!progress()) idle_poll();
}

void Engine::idle_poll() {
  if (++polls_ % 16 == 0) check(false);
}

void Engine::check(bool now) {
  std::vector<std::shared_ptr<Communicator::State>> groups;  // failing one may drop it
  for (Communicator::State* group : groups_) {
    // One whose last handle is gone may wait for the lock in its destructor.
    if (auto alive = group->weak_from_this().lock()) groups.push_back(std::move(alive));
  }
  if (const auto abort = world_.aborted()) {
    const auto error = std::make_exception_ptr(core::PeerError(abort->culprit, abort->text));
    for (const auto& group : groups) group->fail(error);
  }
  for (const auto& group : groups) group->check_abort();
  if (!now && core::now() - last_look_ < kLookEvery) return;
  last_look_ = core::now();
  if (dump_signals() != dumps_) {
    dumps_ = dump_signals();
    dump_flight("SIGUSR1");
  }
  look_for_deaths();
  for (const auto& group : groups) group->check_waits();
}

void Engine::look_for_deaths() {
  peers_->look();
  if (world_.any_abort()) return;  // the news is out, or does not matter any more
  // Members only: one that came to join and went again before it was taken in is nobody's loss.
  const auto dead =
      std::find_if(others_.begin(), others_.end(), [this](int r) { return peers_->dead(r); });
  if (dead == others_.end()) return;
  abort(*dead, fmt::format("rank {} (pid {}) died: {}. Its log ends first; the other ranks stop "
                           "because they cannot go on without it.",
                           *dead, world_.lines(*dead).diary.pid.load(), peers_->death(*dead)));
  check(false);
}

void Engine::abort(int culprit, const std::string& text) const {
  world_.abort(culprit, text);
  wake(others_);
  wake(rank_);
}

void Engine::submitted() {
  if (queued_ == 0 || options_.dry) return;
  if (!serving_) {
    serving_ = true;
    thread_ =
        core::start_thread("tutti-comm", [this](const std::stop_token& stop) { serve(stop); });
  } else if (dozing_) {
    dozing_ = false;
    calls_.fetch_add(1);
    futex_wake(calls_);
  } else if (parked_ && driving_ == 0) {
    arm();
    progress();
  }
}

void Engine::serve(const std::stop_token& stop) {
  core::Seconds last_work = core::now();
  while (!stop.stop_requested()) {
    const std::uint32_t calls = calls_.load();
    bool lately = true;
    {
      Lock lock(*this);
      if (queued_ > 0) {
        last_work = core::now();
        if (driving_ == 0) serve_once(lock);
      } else if (core::now() - last_work > kLately) {
        dozing_ = true;
        lately = false;
      }
      check(false);
    }
    if (!stop.stop_requested()) futex_sleep(calls_, calls, lately ? kGlanceNs : 20 * kSliceNs);
  }
}

// Runs what can be run; sleeps on the bed while all of it waits for others and no thread of the
// caller's drives.
void Engine::serve_once(Lock& lock) {
  while (driving_ == 0 && queued_ > 0 && !gone_) {
    delay(lock);
    if (progress()) {
      lock.give_way();
      continue;
    }
    check(false);
    parked_ = true;
    sleep(lock);
    parked_ = false;
  }
}

void Engine::leave() {
  if (fork_guard_.in_fork()) {  // the peers belong to the parent; so does the thread
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const Lock lock(*this);
    if (gone_) return;
    gone_ = true;
    const auto error = std::make_exception_ptr(core::RunError(
        fmt::format("rank {} destroyed its World while operations were under way", rank_)));
    while (!groups_.empty()) groups_.back()->close(error);
    spares_ = {};
    thread_.request_stop();
    calls_.fetch_add(1);
    futex_wake(calls_);
    if (world_.ranks() > 0) wake(rank_);
  }
  if (thread_.joinable()) thread_.join();
  arena_->detach();
  Message message;
  message.kind = MessageKind::Bye;
  peers_->tell_all(message, -1);
  if (world_.ranks() > 0) wake(others_);
}

void Engine::dump_flight(const std::string& why) {
  if (options_.flight_file.empty()) {
    if (why == "SIGUSR1") fmt::print(stderr, "{}\n", recorder_.json(rank_, tick_rate_));
    return;
  }
  // Renamed when it is whole, for whoever waits for it. No fsync: a failing group must not wait for
  // a disk.
  const std::string part = options_.flight_file + ".part";
  std::ofstream file(part);
  file << recorder_.json(rank_, tick_rate_) << std::endl;
  std::error_code failed;
  if (file) std::filesystem::rename(part, options_.flight_file, failed);
  if (!file || failed) {
    core::log::warn("rank {}: {}: the flight recorder could not be written to {}", rank_, why,
                    part);
    return;
  }
  core::log::info("rank {}: {}: the last {} operations are in {}", rank_, why,
                  recorder_.entries().size(), options_.flight_file);
}

}  // namespace tutti::comm
