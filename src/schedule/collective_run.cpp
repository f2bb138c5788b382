// The run of schedule/collective_run.h: ranks take turns, each as far as it can go, until nobody
// can.
#include "schedule/collective_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>
#include <utility>

namespace tutti::schedule {
namespace {

// The queue of one ordered pair of ranks: every message sent so far. Times are rounds.
struct Channel {
  struct Message {
    int entry;  // of the sender
    int arrives;
    int taken = 0;  // when it was received, if it was
  };
  std::vector<Message> sent;
  std::size_t received = 0;  // the first of them
};

struct RankState {
  std::size_t begin = 0;   // entries of the current step: [begin, begin + done.size())
  std::vector<bool> done;  // empty: the next step has not begun
  int start = 0;           // of the current step
  int end = 0;             // of the current step so far
  std::vector<std::pair<int, int>> marks;  // (mark, time at which others see it), ascending
};

class Runner {
 public:
  Runner(const StepLists& lists, int slots, const RunEvents* events)
      : lists_(lists),
        slots_(static_cast<std::size_t>(slots)),
        events_(events),
        ranks_(lists.size()) {
    queued_.assign(lists.size(), true);
    for (std::size_t rank = 0; rank < lists.size(); ++rank)
      ready_.push_back(static_cast<int>(rank));
  }

  RunResult run() {
    while (!ready_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      queued_[at(rank)] = false;
      advance(rank);
    }
    RunResult result;
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      result.rounds = std::max(result.rounds, ranks_[rank].end);
      if (!over(static_cast<int>(rank))) {
        explain(static_cast<int>(rank), result);
        return result;
      }
    }
    result.finished = true;
    for (const auto& [pair, channel] : channels_) {
      const auto from = static_cast<int>(pair / lists_.size());
      for (std::size_t i = channel.received; i < channel.sent.size(); ++i) {
        result.unread.push_back({from, channel.sent[i].entry});
      }
    }
    return result;
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  [[nodiscard]] bool over(int rank) const {
    return ranks_[at(rank)].begin == lists_[at(rank)].size();
  }

  Channel& channel(int from, int to) {
    return channels_[static_cast<std::uint64_t>(from) * lists_.size() +
                     static_cast<std::uint64_t>(to)];
  }

  void wake(int rank) {
    if (queued_[at(rank)]) return;
    queued_[at(rank)] = true;
    ready_.push_back(rank);
  }

  void advance(int rank) {
    RankState& state = ranks_[at(rank)];
    const auto& list = lists_[at(rank)];
    while (state.begin < list.size()) {
      if (state.done.empty()) begin_step(rank);
      bool all = true;
      for (std::size_t i = 0; i < state.done.size(); ++i) {
        if (!state.done[i]) state.done[i] = try_entry(rank, state.begin + i);
        all = all && state.done[i];
      }
      if (!all) return;
      state.begin += state.done.size();
      state.done.clear();
      if (events_ != nullptr && events_->step_ends) events_->step_ends(rank);
    }
  }

  void begin_step(int rank) {
    RankState& state = ranks_[at(rank)];
    const auto& list = lists_[at(rank)];
    std::size_t end = state.begin;
    while (end < list.size() && list[end].step == list[state.begin].step) ++end;
    state.done.assign(end - state.begin, false);
    state.start = state.end;
    if (events_ != nullptr && events_->step_begins) events_->step_begins(rank);
  }

  bool try_entry(int rank, std::size_t entry) {
    const CollectiveStep& step = lists_[at(rank)][entry];
    RankState& state = ranks_[at(rank)];
    int time = state.start;
    if (!skipped(step)) {
      switch (step.verb) {
        case Verb::Send:
          if (!send(step, {rank, static_cast<int>(entry)}, time)) return false;
          break;
        case Verb::Recv:
        case Verb::RecvAdd:
          if (!receive(step, rank, time)) return false;
          break;
        case Verb::Publish:
          state.marks.emplace_back(step.mark, time + 1);
          for (std::size_t other = 0; other < lists_.size(); ++other) wake(static_cast<int>(other));
          break;
        case Verb::Await:
          if (missing_mark(step, rank, time) >= 0) return false;
          break;
        default:
          break;  // one-sided accesses never wait: what they need was awaited before
      }
    }
    state.end = std::max(state.end, time);
    if (events_ != nullptr && events_->entry_done)
      events_->entry_done({rank, static_cast<int>(entry)});
    return true;
  }

  bool send(const CollectiveStep& step, EntryId id, int& time) {
    Channel& queue = channel(id.rank, step.peers.first);
    const std::size_t sent = queue.sent.size();
    if (sent - queue.received >= slots_) return false;
    if (sent >= slots_) time = std::max(time, queue.sent[sent - slots_].taken);
    queue.sent.push_back({id.entry, ++time});
    wake(step.peers.first);
    return true;
  }

  bool receive(const CollectiveStep& step, int rank, int& time) {
    Channel& queue = channel(step.peers.first, rank);
    if (queue.received == queue.sent.size()) return false;
    Channel::Message& message = queue.sent[queue.received++];
    time = std::max(time, message.arrives);
    message.taken = time;
    wake(step.peers.first);
    return true;
  }

  // The first peer whose flag is below the mark, or -1; then `time` is when the last mark is seen.
  int missing_mark(const CollectiveStep& step, int rank, int& time) const {
    for (int i = 0; i < step.peers.count; ++i) {
      const int peer = step.peers.rank(i);
      if (peer == rank) continue;
      const auto& marks = ranks_[at(peer)].marks;
      const auto seen = std::find_if(marks.begin(), marks.end(),
                                     [&](const auto& mark) { return mark.first >= step.mark; });
      if (seen == marks.end()) return peer;
      time = std::max(time, seen->second);
    }
    return -1;
  }

  // First entry of a stuck rank that waits, and the rank it waits for.
  std::pair<EntryId, int> wait_of(int rank) {
    const RankState& state = ranks_[at(rank)];
    const auto open = std::find(state.done.begin(), state.done.end(), false);
    const auto entry = state.begin + static_cast<std::size_t>(open - state.done.begin());
    const CollectiveStep& step = lists_[at(rank)][entry];
    int time = 0;
    const int peer = step.verb == Verb::Await ? missing_mark(step, rank, time) : step.peers.first;
    return {{rank, static_cast<int>(entry)}, peer};
  }

  void explain(int rank, RunResult& result) {
    std::vector<int> seen(lists_.size(), -1);  // place in the chain
    int peer = rank;
    while (!over(peer) && seen[at(peer)] < 0) {
      seen[at(peer)] = static_cast<int>(result.waits.size());
      const auto [id, next] = wait_of(peer);
      result.waits.push_back(id);
      peer = next;
    }
    const bool circle = !over(peer);
    if (circle) result.waits.erase(result.waits.begin(), result.waits.begin() + seen[at(peer)]);
    constexpr std::size_t kNamed = 4;
    for (std::size_t i = 0; i < std::min(kNamed, result.waits.size()); ++i) {
      const EntryId id = result.waits[i];
      const CollectiveStep& step = lists_[at(id.rank)][at(id.entry)];
      result.text += fmt::format(
          "{}rank {} waits in step {} ({}{}) for rank {}", i == 0 ? "" : ", ", id.rank, step.step,
          describe(step), step.verb == Verb::Send ? fmt::format(", {} slots full", slots_) : "",
          wait_of(id.rank).second);
    }
    if (result.waits.size() > kNamed)
      result.text += fmt::format(", and {} more", result.waits.size() - kNamed);
    if (!circle) result.text += fmt::format(", whose list ends without it (rank {})", peer);
  }

  const StepLists& lists_;
  std::size_t slots_;
  const RunEvents* events_;
  std::vector<RankState> ranks_;
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::deque<int> ready_;
  std::vector<bool> queued_;
};

}  // namespace

RunResult run(const StepLists& lists, int slots, const RunEvents* events) {
  return Runner(lists, slots, events).run();
}

int smallest_slots(const StepLists& lists) {
  const auto works = [&](int slots) { return run(lists, slots).finished; };
  int high = 1;
  for (const auto& list : lists) {
    high = std::max(high,
                    static_cast<int>(std::count_if(list.begin(), list.end(), [](const auto& step) {
                      return step.verb == Verb::Send;
                    })));  // as many slots as a rank sends: nobody waits for one
  }
  if (works(1)) return 1;
  if (!works(high)) return 0;
  int low = 1;  // fails; high works
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (works(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace tutti::schedule
