// One rank's run in the place of all, for schedule/rotation_verify.h.
#include "schedule/rotation_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

namespace tutti::schedule {
namespace {

// The values of ranks first, first + 1, ... (count of them, modulo ranks), added in this order.
// count 0: nothing.
struct RingSum {
  int first = 0;
  int count = 0;
  friend bool operator==(const RingSum&, const RingSum&) = default;
};

struct Message {
  int share;
  RingSum sum;
};

class RotationProof {
 public:
  RotationProof(const Rotation& rotation, Operation operation, int ranks, int slots)
      : rotation_(rotation),
        operation_(operation),
        ranks_(ranks),
        slots_(static_cast<std::size_t>(slots)) {
    shares_.resize(static_cast<std::size_t>(ranks));
    const bool gathers = operation == Operation::AllGather;
    for (int share = 0; share < ranks; ++share) {
      if (!gathers || share == 0) shares_[at(share)] = {0, 1};
    }
  }

  // Waits only, or contents too.
  bool finishes() {
    for (std::size_t begin = 0; begin < rotation_.size();) {
      const std::size_t end = step_end(begin);
      if (!run_step(begin, end)) return false;
      begin = end;
    }
    return true;
  }

  [[nodiscard]] const std::string& waits() const { return waits_; }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  void check_end() {
    for (const auto& [offset, queue] : queues_) {
      if (!queue.empty())
        fail(Fault::Mismatch, fmt::format("rank {} never receives the last {} messages of rank 0",
                                          offset, queue.size()));
    }
    for (int share = 0; share < ranks_; ++share) {
      if (operation_ == Operation::ReduceScatter && share != 0) continue;
      const RingSum wanted =
          operation_ == Operation::AllGather ? RingSum{share, 1} : RingSum{turn(share + 1), ranks_};
      const RingSum& got = shares_[at(share)];
      const bool commuted = got.count == 2 && wanted.count == 2 && ranks_ == 2;  // a + b = b + a
      if (got == wanted || commuted) continue;
      const bool complete = got.count == wanted.count && operation_ != Operation::AllGather;
      fail(complete ? Fault::Order : Fault::Wrong,
           fmt::format("rank 0 ends with {} in share {} instead of {}", words(got), share,
                       words(wanted)));
    }
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  [[nodiscard]] int turn(int value) const { return (value % ranks_ + ranks_) % ranks_; }

  static std::string words(const RingSum& sum) {
    return sum.count == 0
               ? "nothing"
               : fmt::format("the sum of {} ranks from rank {} on", sum.count, sum.first);
  }

  void fail(Fault fault, std::string text) {
    if (fault_ != Fault::None) return;
    fault_ = fault;
    text_ = std::move(text) + "; the other ranks alike, turned";
  }

  [[nodiscard]] std::size_t step_end(std::size_t begin) const {
    std::size_t end = begin;
    while (end < rotation_.size() && rotation_[end].step == rotation_[begin].step) ++end;
    return end;
  }

  bool run_step(std::size_t begin, std::size_t end) {
    check_races(begin, end);
    std::vector<bool> done(end - begin, false);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = begin; i < end; ++i) {
        if (done[i - begin] || !try_entry(rotation_[i])) continue;
        done[i - begin] = moved = true;
      }
    }
    const auto open = std::find(done.begin(), done.end(), false);
    if (open == done.end()) return true;
    const RotatedStep& entry = rotation_[begin + static_cast<std::size_t>(open - done.begin())];
    waits_ = fmt::format(
        "rank 0 waits in step {} ({} {} rank {}{}) for rank {}, which waits in its step {} for "
        "rank {}, and so on round "
        "the ring",
        entry.step, name(entry.verb), entry.verb == Verb::Send ? "to" : "from", entry.peer,
        entry.verb == Verb::Send ? fmt::format(", {} slots full", slots_) : "", entry.peer,
        entry.step, turn(2 * entry.peer));
    return false;
  }

  // A share that is written in a step must not be touched by another entry of that step.
  void check_races(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t j = begin; j < i; ++j) {
        const bool writes = receives(rotation_[i].verb) || receives(rotation_[j].verb);
        if (writes && rotation_[i].share == rotation_[j].share) {
          fail(Fault::Race,
               fmt::format("rank 0, step {}: {} and {} both use share {}", rotation_[i].step,
                           name(rotation_[j].verb), name(rotation_[i].verb), rotation_[i].share));
        }
      }
    }
  }

  // Rank 0 stands for the sender and, as everybody does the same, for the receiver at the other
  // end.
  bool try_entry(const RotatedStep& entry) {
    if (entry.verb == Verb::Send) {
      auto& queue = queues_[entry.peer];
      if (queue.size() >= slots_) return false;
      const RingSum& sum = shares_[at(entry.share)];
      if (sum.count == 0)
        fail(Fault::Undefined,
             fmt::format("rank 0, step {}: it sends share {}, which holds nothing yet", entry.step,
                         entry.share));
      queue.push_back({turn(entry.share - entry.peer), {turn(sum.first - entry.peer), sum.count}});
      return true;
    }
    auto& queue = queues_[turn(-entry.peer)];
    if (queue.empty()) return false;
    take(entry, queue.front());
    queue.pop_front();
    return true;
  }

  void take(const RotatedStep& entry, const Message& message) {
    if (message.share != entry.share) {
      fail(Fault::Mismatch,
           fmt::format("rank 0, step {}: share {} of rank {} arrives where share {} is expected",
                       entry.step, message.share, entry.peer, entry.share));
    }
    RingSum& own = shares_[at(entry.share)];
    if (entry.verb == Verb::Recv) {
      own = message.sum;
      return;
    }
    const std::optional<RingSum> sum = joined_sum(message.sum, own);
    if (!sum) {
      fail(Fault::Wrong, fmt::format("rank 0, step {}: {} and {} do not follow each other",
                                     entry.step, words(message.sum), words(own)));
    }
    own = sum.value_or(own);
  }

  // A run with one value added at its end, on either side; nothing else is a run.
  [[nodiscard]] std::optional<RingSum> joined_sum(const RingSum& a, const RingSum& b) const {
    if (a.count == 0 || b.count == 0 || a.count + b.count > ranks_) return std::nullopt;
    if (b.count == 1 && turn(a.first + a.count) == b.first) return RingSum{a.first, a.count + 1};
    if (a.count == 1 && turn(b.first + b.count) == a.first) return RingSum{b.first, b.count + 1};
    return std::nullopt;
  }

  const Rotation& rotation_;
  Operation operation_;
  int ranks_;
  std::size_t slots_;
  std::vector<RingSum> shares_;  // of rank 0, by share
  std::unordered_map<int, std::deque<Message>>
      queues_;  // by offset of the receiver; shares and ranks as it counts
  Fault fault_ = Fault::None;
  std::string text_;
  std::string waits_;
};

bool is_sound(const RotatedStep& entry, int ranks, int previous) {
  const bool message = entry.verb == Verb::Send || receives(entry.verb);
  return message && entry.step >= previous && entry.peer > 0 && entry.peer < ranks &&
         entry.share >= 0 && entry.share < ranks;
}

}  // namespace

CollectiveVerdict verify_rotation(const Rotation& rotation, Operation operation, int ranks,
                                  int slots) {
  CollectiveVerdict verdict;
  int previous = 0;
  for (const RotatedStep& entry : rotation) {
    if (!is_sound(entry, ranks, previous)) {
      verdict.fault = Fault::Malformed;
      verdict.text =
          fmt::format("step {} ({}): peer {} or share {} is none of the {}, or steps go back",
                      entry.step, name(entry.verb), entry.peer, entry.share, ranks);
      return verdict;
    }
    previous = entry.step;
  }
  const auto finishes = [&](int count) {
    return RotationProof(rotation, operation, ranks, count).finishes();
  };
  RotationProof proof(rotation, operation, ranks, slots);
  verdict.deadlock_free = proof.finishes();
  const int most = std::max(1, static_cast<int>(rotation.size()));
  int low = 0;
  int high = finishes(1) ? 1 : most;
  if (finishes(high)) {
    if (high > 1) low = 1;
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (finishes(middle) ? high : low) = middle;
    }
    verdict.smallest_slots = high;
  }
  if (!verdict.deadlock_free) {
    verdict.fault = Fault::Deadlock;
    verdict.text = proof.waits();
    return verdict;
  }
  proof.check_end();
  verdict.fault = proof.fault();
  verdict.text = proof.text();
  return verdict;
}

}  // namespace tutti::schedule
