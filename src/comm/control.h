// The control memory of one group on one host: who has arrived where, who sleeps, who aborted.
// Every line has one writer (its rank) unless said otherwise; zeros are the valid beginning.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "comm/shared_memory.h"

namespace tutti::comm {

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4, "words are shared and futexes");

/// Counters only grow and wrap: "at least" is a signed difference.
inline bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

/// A point inside an operation of a group: marks of one operation ascend, and a later operation is
/// behind all of them.
inline std::uint64_t mark(std::uint32_t operation, std::uint32_t point) {
  return std::uint64_t{operation} << 32 | point;
}
inline bool passed(std::uint64_t value, std::uint64_t target) {
  const auto at = static_cast<std::uint32_t>(value >> 32),
             to = static_cast<std::uint32_t>(target >> 32);
  return at == to ? value >= target : reached(at, to);
}
/// Whether a rank that has passed `target` can be at `value`: at most one operation further, since
/// each begins with the arrival of all.
inline bool plausible(std::uint64_t value, std::uint64_t target) {
  return static_cast<std::uint32_t>(value >> 32) - static_cast<std::uint32_t>(target >> 32) <= 1;
}

/// One step of a check sum over words of control memory: finds stray stores, no forgery.
inline std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) {
  sum = (sum ^ word) * 0x9e3779b97f4a7c15U;
  return sum ^ sum >> 32;
}

/// What one rank says when it enters an operation. Written in full, then published by the store to
/// `seq`; readers load `seq`, then read the rest. Two per rank, by parity of seq: a rank publishes
/// seq + 2 only after it has seen everybody publish seq + 1, and they do that only when they have
/// finished reading seq.
struct alignas(64) OpDescriptor {
  /// Words of a payload that is no data.
  struct Words {
    std::uint64_t sum;     // check sum of the descriptor
    std::uint64_t counts;  // check sum of what all_to_all lays beside it
    std::uint64_t extra;   // hash of counts, block starts and factor
  };
  std::uint64_t count;       // elements
  std::uint64_t in_offset;   // bytes into segment in_segment of the rank's arena; the check sum
                             // where the payload is data
  std::uint64_t out_offset;  // of a second buffer: scratch, or the input of all_to_all; `extra`
                             // where the payload is data
  std::array<std::byte, 24> payload;  // the data itself when it fits, else Words
  std::uint16_t in_segment, out_segment;
  std::uint8_t op, dtype, redop, flags;
  std::uint16_t root;
  std::uint16_t zero;
  Word seq;  // last

  [[nodiscard]] Words words() const {
    Words words;
    std::memcpy(&words, payload.data(), sizeof(words));
    return words;
  }
  void set_words(const Words& words) { std::memcpy(payload.data(), &words, sizeof(words)); }
};
static_assert(sizeof(OpDescriptor) == 64);
static_assert(sizeof(OpDescriptor::Words) == sizeof(OpDescriptor::payload));
// OpDescriptor::flags: bits 0 and 1, and the algorithm from bit 4 on.
inline constexpr std::uint8_t kRegistered = 1;  // in_offset is the caller's buffer, not staging
inline constexpr std::uint8_t kInline = 2;      // the payload is data
inline constexpr int kAlgorithmShift = 4;

/// One message from one rank to another (send/recv). Its data lies in the sender's arena.
struct alignas(64) Envelope {
  Word full;  // 0: the sender may fill it, 1: the receiver may read it
  std::int32_t tag;
  std::uint32_t number;  // of messages from this sender to this receiver: FIFO per tag
  std::uint16_t segment;
  std::uint8_t dtype;
  std::uint64_t offset;
  std::uint64_t count;
  std::uint64_t sum;  // of what a receiver acts on, see seal()
  void seal() { sum = digest(); }
  [[nodiscard]] bool is_whole() const { return sum == digest(); }

 private:
  [[nodiscard]] std::uint64_t digest() const {
    const std::uint64_t words[] = {std::uint64_t{number} << 32 | static_cast<std::uint32_t>(tag),
                                   std::uint64_t{dtype} << 16 | segment, offset, count};
    std::uint64_t result = 1;
    for (const std::uint64_t word : words) result = mixed(result, word);
    return result;
  }
};
static_assert(sizeof(Envelope) == 64);

/// A short text that others may read while it is being replaced: words, so that no read is a race.
class SharedText {
 public:
  void set(std::string_view text);
  [[nodiscard]] std::string get() const;

 private:
  std::array<std::atomic<std::uint64_t>, 8> words_;
};

/// The lines of one rank. 128 bytes apart: the prefetcher drags the neighbouring line along.
struct RankLines {
  struct alignas(128) Slot {
    OpDescriptor descriptor;
    std::array<std::byte, 64>
        beside;  // of a small all-reduce: its line comes with the descriptor's
  };
  struct alignas(128) Marks {
    std::atomic<std::uint64_t>
        at;  // (operation, mark): the points this rank has passed; see mark()
  };
  struct alignas(128) Bed {
    Word state;  // odd: someone of this rank sleeps on this futex, or is about to (see engine.cpp)
  };
  struct alignas(128) Diary {  // for hang reports: numbers of operations, times in ticks
    Word entered, done;
    std::atomic<std::uint64_t> entered_at, done_at;
    Word pid;
  };
  struct alignas(128) Activity {
    SharedText text;
    std::atomic<std::uint64_t> since;
  };
  std::array<Slot, 2> slots;
  Marks marks;
  Bed bed;  // used in the world's block only
  Diary diary;
  Activity activity;  // used in the world's block only
};

/// The first error of a group. Whoever claims it writes it; readers wait for it to be whole.
struct AbortRecord {
  static constexpr std::size_t kTextBytes = 3072;
  static constexpr std::uint32_t kNone = 0, kWhole = 1, kBeingWritten = 2;
  Word state;  // kNone, kWhole, or kBeingWritten + 1 + the culprit's world rank (-1: unknown)
  std::int32_t culprit;
  std::array<char, kTextBytes> text;
};

struct Abort {
  int culprit = -1;
  std::string text;
};

/// A view of one block of control memory. Copies see the same memory.
class ControlBlock {
 public:
  static constexpr std::size_t kOneShotBytes = 16384;  // per rank and parity
  /// Ranks of a host: as many counts of all_to_all fit beside a descriptor, and as many cache lines
  /// into a staging half.
  static constexpr int kMostRanks = kOneShotBytes / sizeof(std::int64_t);

  /// `credits`: messages under way per ordered pair (0: a block without send/recv).
  [[nodiscard]] static std::size_t bytes(int ranks, int credits);
  ControlBlock() = default;
  ControlBlock(std::shared_ptr<Mapping> memory, int ranks, int credits);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int credits() const { return credits_; }
  [[nodiscard]] RankLines& lines(int rank) const { return lines_[rank]; }
  [[nodiscard]] OpDescriptor& descriptor(int rank, std::uint32_t seq) const {
    return lines_[rank].slots[seq & 1].descriptor;
  }
  [[nodiscard]] Envelope& envelope(int from, int to, int index) const {
    return envelopes_[(static_cast<std::size_t>(from) * ranks_ + to) * credits_ + index];
  }
  /// The line beside that descriptor.
  [[nodiscard]] std::array<std::byte, 64>& beside(int rank, std::uint32_t seq) const {
    return lines_[rank].slots[seq & 1].beside;
  }
  /// Where a rank lays a small all-reduce of that parity for the others.
  [[nodiscard]] std::byte* one_shot(int rank, std::uint32_t seq) const {
    return one_shot_ + (static_cast<std::size_t>(rank) * 2 + (seq & 1)) * kOneShotBytes;
  }
  /// Eight figures that rank 0 measured for all (probe), before anybody left wire-up.
  [[nodiscard]] std::array<std::atomic<double>, 8>& figures() const;

  /// Sets the error unless there is one. Any thread.
  void abort(int culprit, const std::string& text) const;
  [[nodiscard]] std::optional<Abort> aborted() const;
  [[nodiscard]] bool any_abort() const;

 private:
  struct Header;
  [[nodiscard]] Header& header() const;

  std::shared_ptr<Mapping> memory_;
  int ranks_ = 0, credits_ = 0;
  RankLines* lines_ = nullptr;
  Envelope* envelopes_ = nullptr;
  std::byte* one_shot_ = nullptr;
};

}  // namespace tutti::comm
