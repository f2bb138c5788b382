// Progress and the waiting ladder: spin, yield, sleep.
//
// No wake-up is lost. A rank going to sleep (1) stores asleep = 1, (2) looks at all flags once
// more, (3) sleeps if nothing moved, as long as asleep is still 1 (the kernel compares). A rank
// that posts (a) stores its flag, (b) loads the others' asleep words, clearing and waking those
// that are set. All four are sequentially consistent, so in their one total order either (1) comes
// before (b), and the sleeper is woken (or the compare in (3) fails), or (b) before (1), hence (a)
// before (2), and the sleeper sees the flag. The time slice of the sleep is for deaths and
// deadlines, not for this.
#include "comm/engine.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/group.h"
#include "comm/operation.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

constexpr int kSpins = 300;
constexpr int kYields = 50;
constexpr std::uint64_t kSpinTicks = 30'000;  // about 10 us: spinning longer never paid
constexpr long kSliceNs = 50'000'000;
constexpr core::Seconds kLookEvery(0.02);

// The number is the kernel's, the word is shared between processes (no FUTEX_PRIVATE_FLAG).
void futex_sleep(Word& word, std::uint32_t while_it_is) {
  const timespec slice = {0, kSliceNs};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, while_it_is, &slice,
            nullptr, 0);
}

void futex_wake(Word& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace

Engine::Engine(int rank, std::unique_ptr<Peers> peers, std::shared_ptr<MappingCache> mappings,
               const CommOptions& options)
    : rank_(rank), peers_(std::move(peers)), mappings_(std::move(mappings)), options_(options) {
  arena_ =
      std::make_shared<Arena>(mappings_, [this](std::uint16_t segment, int fd, std::size_t bytes) {
        Message message;
        message.kind = MessageKind::Segment;
        message.number = segment;
        message.bytes = bytes;
        peers_->tell_all(message, fd);
      });
  for (int r = 0; r < peers_->size(); ++r) {
    if (r != rank_) others_.push_back(r);
  }
  // A launcher that binds gives each rank cores of its own, so the mask alone does not tell.
  crowded_ = static_cast<long>(peers_->size()) > ::sysconf(_SC_NPROCESSORS_ONLN);
}

Engine::~Engine() { leave(); }

void Engine::set_world(ControlBlock block) {
  world_ = std::move(block);
  world_.lines(rank_).diary.pid.store(static_cast<std::uint32_t>(::getpid()));
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

void Engine::wake(const std::vector<int>& world_ranks) const {
  for (const int r : world_ranks) {
    Word& asleep = world_.lines(r).bed.asleep;
    if (asleep.load() != 0 && asleep.exchange(0) != 0) futex_wake(asleep);
  }
}

void Engine::sleep() {
  Word& asleep = world_.lines(rank_).bed.asleep;
  asleep.store(1);
  if (!progress()) futex_sleep(asleep, 1);
  asleep.store(0);
}

void Engine::wait(Operation& operation) {
  operation.ask();
  int idle = 0;
  std::uint64_t idle_since = 0;
  while (!operation.ended()) {
    if (progress()) {
      idle = 0;
      continue;
    }
    if (operation.ended()) return;
    if (idle == 0) idle_since = ticks();
    ++idle;
    if (!crowded_ && idle <= kSpins && ticks() - idle_since < kSpinTicks) {
      pause();
    } else if (crowded_ && idle <= kYields) {
      ::sched_yield();
    } else {
      sleep();
      check(false);
    }
    if (idle % 64 == 0) check(false);
  }
}

void Engine::poll(Operation& operation) {
  operation.ask();
  if (!progress()) idle_poll();
}

void Engine::idle_poll() {
  if (++polls_ % 16 == 0) check(false);
}

void Engine::check(bool now) {
  std::vector<std::shared_ptr<Communicator::State>> groups;  // failing one may drop it
  for (Communicator::State* group : groups_) groups.push_back(group->shared_from_this());
  if (const auto abort = world_.aborted()) {
    const auto error = std::make_exception_ptr(core::PeerError(abort->culprit, abort->text));
    for (const auto& group : groups) group->fail(error);
  }
  for (const auto& group : groups) group->check_abort();
  if (!now && core::now() - last_look_ < kLookEvery) return;
  last_look_ = core::now();
  look_for_deaths();
  for (const auto& group : groups) group->check_waits();
}

void Engine::look_for_deaths() {
  const int dead = peers_->watch();
  if (dead < 0) return;
  abort(dead, fmt::format("rank {} (pid {}) died: {}. Its log ends first; the other ranks stop "
                          "because they cannot go on without it.",
                          dead, world_.lines(dead).diary.pid.load(), peers_->death(dead)));
  check(false);
}

void Engine::abort(int culprit, const std::string& text) const {
  world_.abort(culprit, text);
  wake(others_);
}

void Engine::leave() {
  if (gone_) return;
  gone_ = true;
  const auto error = std::make_exception_ptr(core::RunError(
      fmt::format("rank {} destroyed its World while operations were under way", rank_)));
  while (!groups_.empty()) groups_.back()->close(error);
  arena_->detach();
  Message message;
  message.kind = MessageKind::Bye;
  peers_->tell_all(message, -1);
  if (world_.ranks() > 0) wake(others_);
}

}  // namespace tutti::comm
