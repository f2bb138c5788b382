// The flight recorder: what the last operations of this rank were and when they did what.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "comm/ticks.h"

namespace tutti::comm {

/// Always on; one entry costs two time stamps and a copy of some words. Not thread-safe: written
/// and read under the engine's lock.
class Recorder {
 public:
  static constexpr std::size_t kEntries = 1024;

  enum class State : std::uint8_t { Queued, Started, Done, Failed };
  struct Entry {
    std::uint64_t asked = 0, started = 0, ended = 0;  // ticks; 0: not yet
    std::uint64_t bytes = 0;
    std::uint32_t number = 0;  // in its group; 0: not started
    Collective kind = Collective::Barrier;
    State state = State::Queued;
    std::array<char, 16> group = {};  // cut off, ends with a zero
    std::array<char, 48> label = {};
  };

  /// Times are in ticks. Starts an entry over the oldest one; the result names it to the other
  /// functions, which do nothing if it has been overwritten since.
  std::size_t begin(Collective kind, std::string_view group, std::string_view label);
  void start(std::size_t entry, std::uint32_t number, std::uint64_t bytes, std::uint64_t now);
  void end(std::size_t entry, bool well, std::uint64_t now);

  [[nodiscard]] std::size_t begun() const { return begun_; }
  /// The entries still there, oldest first.
  [[nodiscard]] std::vector<Entry> entries() const;
  /// One JSON document: the rank, and per operation its times in seconds before now.
  [[nodiscard]] std::string json(int rank, const TickRate& rate) const;

 private:
  Entry* find(std::size_t entry);
  std::array<Entry, kEntries> ring_ = {};
  std::size_t begun_ = 0;
};

/// Counts SIGUSR1 in this process from now on (the handler does no more than that).
void count_dump_signals();
std::uint32_t dump_signals();

}  // namespace tutti::comm
