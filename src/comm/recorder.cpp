// A ring of entries, and its JSON.
#include "comm/recorder.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>

#include "comm/lines.h"
#include "core/json.h"

namespace tutti::comm {
namespace {

template <std::size_t N>
void copy_text(std::array<char, N>& to, std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  if (length > 0) std::memcpy(to.data(), text.data(), length);
  to[length] = '\0';
}

const char* name(Recorder::State state) {
  switch (state) {
    case Recorder::State::Queued:
      return "queued";
    case Recorder::State::Started:
      return "started";
    case Recorder::State::Done:
      return "done";
    case Recorder::State::Failed:
      return "failed";
  }
  return "?";
}

// A signal handler can reach nothing but what is global.
std::atomic<std::uint32_t> signals_seen = 0;
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace

std::size_t Recorder::begin(Collective kind, std::string_view group, std::string_view label) {
  Entry& entry = ring_[begun_ % kEntries];
  entry.asked = ticks();
  entry.started = entry.ended = entry.bytes = 0;
  entry.number = 0;
  entry.kind = kind;
  entry.state = State::Queued;
  copy_text(entry.group, group);
  copy_text(entry.label, label);
  return begun_++;
}

Recorder::Entry* Recorder::find(std::size_t entry) {
  return begun_ - entry <= kEntries ? &ring_[entry % kEntries] : nullptr;
}

void Recorder::start(std::size_t entry, std::uint32_t number, std::uint64_t bytes,
                     std::uint64_t now) {
  Entry* const e = find(entry);
  if (e == nullptr) return;
  e->number = number;
  e->bytes = bytes;
  e->started = now;
  e->state = State::Started;
}

void Recorder::end(std::size_t entry, bool well, std::uint64_t now) {
  Entry* const e = find(entry);
  if (e == nullptr) return;
  e->ended = now;
  e->state = well ? State::Done : State::Failed;
  // The next entry left the near caches a thousand operations ago.
  const Entry* const next = &ring_[begun_ % kEntries];
  own_line(next);
  own_line(next + 1);
}

std::vector<Recorder::Entry> Recorder::entries() const {
  std::vector<Entry> result;
  for (std::size_t i = begun_ - std::min(begun_, kEntries); i < begun_; ++i) {
    result.push_back(ring_[i % kEntries]);
  }
  return result;
}

std::string Recorder::json(int rank, const TickRate& rate) const {
  core::Json operations = core::Json::array();
  const auto ago = [&rate](std::uint64_t then) -> core::Json {
    return then == 0 ? core::Json() : core::Json(rate.seconds_since(then));
  };
  for (const Entry& e : entries()) {
    operations.push_back({{"group", e.group.data()},
                          {"number", e.number},
                          {"op", comm::name(e.kind)},
                          {"label", e.label.data()},
                          {"bytes", e.bytes},
                          {"state", name(e.state)},
                          {"asked_s_ago", ago(e.asked)},
                          {"started_s_ago", ago(e.started)},
                          {"ended_s_ago", ago(e.ended)}});
  }
  const core::Json all = {{"rank", rank}, {"operations_begun", begun_}, {"operations", operations}};
  // A label may have been cut inside a character.
  return all.dump(1, ' ', false, core::Json::error_handler_t::replace);
}

void count_dump_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { signals_seen.fetch_add(1, std::memory_order_relaxed); };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
}

std::uint32_t dump_signals() { return signals_seen.load(std::memory_order_relaxed); }

}  // namespace tutti::comm
