// The interpreter of schedule/collective_harness.h, and tests that it sees what it must see.
#include "schedule/collective_harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

namespace tutti::schedule::harness {
namespace {

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Interpreter {
 public:
  Interpreter(const CollectiveSchedule& schedule, const StepLists& lists, int slots)
      : lists_(lists), slots_(at(slots)), flags_(lists.size(), 0), begin_(lists.size(), 0) {
    for (int rank = 0; rank < schedule.request.ranks; ++rank) {
      data_.push_back(filled(rank, schedule.data_elements(rank), false));
      input_.push_back(filled(rank, schedule.input_elements(rank), true));
      scratch_.emplace_back(schedule.scratch);
      limit(schedule, rank);
      done_.push_back(open_step(rank));
    }
  }

  Outcome run(std::mt19937& random) {
    for (;;) {
      std::vector<std::pair<int, std::size_t>> open;
      for (int rank = 0; rank < static_cast<int>(lists_.size()); ++rank) {
        for (std::size_t i = 0; i < done_[at(rank)].size(); ++i) {
          if (!done_[at(rank)][i] && able(rank, i)) open.emplace_back(rank, i);
        }
      }
      if (open.empty()) break;
      const auto [rank, i] =
          open[std::uniform_int_distribution<std::size_t>(0, open.size() - 1)(random)];
      take(rank, lists_[at(rank)][begin_[at(rank)] + i]);
      done_[at(rank)][i] = true;
      const auto& done = done_[at(rank)];
      if (std::find(done.begin(), done.end(), false) == done.end()) {
        begin_[at(rank)] += done.size();
        done_[at(rank)] = open_step(rank);
      }
    }
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      outcome_.stuck = outcome_.stuck || begin_[rank] < lists_[rank].size();
    }
    for (const auto& [pair, queue] : queues_) outcome_.unread += queue.size();
    outcome_.data = data_;
    return outcome_;
  }

 private:
  static Buffer filled(int rank, std::size_t size, bool written) {
    Buffer buffer(size);
    for (std::size_t i = 0; i < size; ++i) {
      buffer[i] = input(rank, i);
      buffer[i].written = written;
    }
    return buffer;
  }

  // Marks what the operation says a rank brings; the rest is garbage.
  void limit(const CollectiveSchedule& schedule, int rank) {
    Slice own{0, 0};
    switch (schedule.request.operation) {
      case Operation::AllReduce:
      case Operation::ReduceScatter:
      case Operation::Reduce:
        own = {0, data_.back().size()};
        break;
      case Operation::AllGather:
      case Operation::Gather:
        own = schedule.shares[at(rank)];
        break;
      case Operation::Broadcast:
      case Operation::Scatter:
        if (rank == schedule.request.root) own = {0, data_.back().size()};
        break;
      case Operation::AllToAll:
        break;
    }
    for (std::size_t i = own.begin; i < own.end; ++i) data_.back()[i].written = true;
  }

  [[nodiscard]] std::vector<bool> open_step(int rank) const {
    const auto& list = lists_[at(rank)];
    std::size_t end = begin_[at(rank)];
    while (end < list.size() && list[end].step == list[begin_[at(rank)]].step) ++end;
    return std::vector<bool>(end - begin_[at(rank)], false);
  }

  std::deque<Buffer>& queue(int from, int to) { return queues_[{from, to}]; }

  bool able(int rank, std::size_t i) {
    const auto* step = &lists_[at(rank)][begin_[at(rank)]];
    const CollectiveStep& entry = step[i];
    const bool message = entry.verb == Verb::Send || receives(entry.verb);
    if (entry.slice.empty() && entry.verb != Verb::Await) return true;
    for (std::size_t j = 0; j < i && message; ++j) {  // messages of a pair keep their order
      const bool same_way = (step[j].verb == Verb::Send) == (entry.verb == Verb::Send) &&
                            (step[j].verb == Verb::Send || receives(step[j].verb));
      if (same_way && step[j].peers.first == entry.peers.first && !done_[at(rank)][j]) return false;
    }
    if (entry.verb == Verb::Send) return queue(rank, entry.peers.first).size() < slots_;
    if (receives(entry.verb)) return !queue(entry.peers.first, rank).empty();
    if (entry.verb != Verb::Await) return true;
    for (int p = 0; p < entry.peers.count; ++p) {
      const int peer = entry.peers.rank(p);
      if (peer != rank && flags_[at(peer)] < entry.mark) return false;
    }
    return true;
  }

  Buffer& buffer(int rank, Space space) {
    return space == Space::Data    ? data_[at(rank)]
           : space == Space::Input ? input_[at(rank)]
                                   : scratch_[at(rank)];
  }

  Buffer read(int rank, Space space, std::size_t begin, std::size_t size) {
    Buffer result;
    for (std::size_t i = begin; i < begin + size; ++i) {
      result.push_back(buffer(rank, space)[i]);
      if (!result.back().written) outcome_.read_unwritten = true;
    }
    return result;
  }

  void write(int rank, Space space, std::size_t begin, const Buffer& values) {
    std::copy(values.begin(), values.end(),
              buffer(rank, space).begin() + static_cast<std::ptrdiff_t>(begin));
  }

  static Buffer added(const Buffer& a, const Buffer& b) {
    Buffer result;
    for (std::size_t i = 0; i < a.size(); ++i) result.push_back(sum(a[i], b[i]));
    return result;
  }

  void take(int rank, const CollectiveStep& s) {
    const std::size_t size = s.slice.size();
    if (s.verb == Verb::Publish) flags_[at(rank)] = s.mark;
    if (s.verb == Verb::Publish || s.verb == Verb::Await || size == 0) return;
    if (s.verb == Verb::Send) {
      queue(rank, s.peers.first).push_back(read(rank, s.space, s.slice.begin, size));
    } else if (receives(s.verb)) {
      Buffer values = queue(s.peers.first, rank).front();
      queue(s.peers.first, rank).pop_front();
      if (values.size() != size) {
        outcome_.mismatched = true;
        return;
      }
      if (s.verb == Verb::RecvAdd) values = added(read(rank, s.space, s.slice.begin, size), values);
      write(rank, s.space, s.slice.begin, values);
    } else if (s.verb == Verb::StoreTo) {
      const Buffer values = read(rank, s.space, s.slice.begin, size);
      for (int p = 0; p < s.peers.count; ++p) {
        if (s.peers.rank(p) != rank) write(s.peers.rank(p), s.peer_space, s.peer_begin, values);
      }
    } else {
      Buffer values = read(s.peers.rank(0), s.peer_space, s.peer_begin, size);
      for (int p = 1; p < s.peers.count; ++p) {
        values = added(values, read(s.peers.rank(p), s.peer_space, s.peer_begin, size));
      }
      write(rank, s.space, s.slice.begin, values);
    }
  }

  const StepLists& lists_;
  std::size_t slots_;
  std::vector<Buffer> data_, input_, scratch_;
  std::vector<int> flags_;
  std::vector<std::size_t> begin_;
  std::vector<std::vector<bool>> done_;
  std::map<std::pair<int, int>, std::deque<Buffer>> queues_;
  Outcome outcome_;
};

}  // namespace

Value input(int rank, std::size_t element) {
  const std::uint64_t bits = mixed(at(rank) * 1'000'003 + element);
  return {bits, bits, true};
}

Value sum(const Value& a, const Value& b) {
  return {a.sum + b.sum, mixed(a.order + b.order), a.written && b.written};
}

Value rank_order_sum(int ranks, std::size_t element) {
  Value result = input(0, element);
  for (int rank = 1; rank < ranks; ++rank) result = sum(result, input(rank, element));
  return result;
}

Outcome run(const CollectiveSchedule& schedule, const StepLists& lists, int slots,
            std::mt19937& random) {
  return Interpreter(schedule, lists, slots).run(random);
}

std::string wrong_result(const CollectiveSchedule& schedule, const std::vector<Buffer>& data) {
  const CollectiveRequest& request = schedule.request;
  std::string text;
  const auto expect = [&](int rank, Slice slice, auto&& value_of) {
    for (std::size_t i = slice.begin; i < slice.end && text.empty(); ++i) {
      const Value& got = data[at(rank)][i];
      if (!got.written || got.sum != value_of(i))
        text = fmt::format("element {} of rank {} is wrong", i, rank);
    }
  };
  const auto total = [&](std::size_t i) { return rank_order_sum(request.ranks, i).sum; };
  for (int rank = 0; rank < request.ranks; ++rank) {
    const Slice all{0, data[at(rank)].size()};
    const bool is_root = rank == request.root;
    switch (request.operation) {
      case Operation::AllReduce:
        expect(rank, all, total);
        break;
      case Operation::ReduceScatter:
        expect(rank, schedule.shares[at(rank)], total);
        break;
      case Operation::Reduce:
        if (is_root) expect(rank, all, total);
        break;
      case Operation::Broadcast:
        expect(rank, all, [&](std::size_t i) { return input(request.root, i).sum; });
        break;
      case Operation::Scatter:
        expect(rank, schedule.shares[at(rank)],
               [&](std::size_t i) { return input(request.root, i).sum; });
        break;
      case Operation::AllGather:
      case Operation::Gather:
        for (int from = 0; from < request.ranks; ++from) {
          if (request.operation == Operation::Gather && !is_root) continue;
          expect(rank, schedule.shares[at(from)],
                 [&](std::size_t i) { return input(from, i).sum; });
        }
        break;
      case Operation::AllToAll: {
        std::size_t begin = 0;  // parts of Data follow each other by sender
        for (int from = 0; from < request.ranks; ++from) {
          const Slice sent = schedule.parts->input(from, rank);
          expect(rank, {begin, begin + sent.size()},
                 [&](std::size_t i) { return input(from, sent.begin + i - begin).sum; });
          begin += sent.size();
        }
      }
    }
  }
  return text;
}

namespace {

CollectiveSchedule two_ranks() { return generate({.ranks = 2, .elements = 1}); }
CollectiveStep message(int step, Verb verb, int peer) {
  return {step, verb, {peer, 1}, Space::Data, {0, 1}};
}

TEST(CollectiveHarness, SeesRanksThatWaitForEachOther) {
  const StepLists lists = {{message(0, Verb::Recv, 1), message(1, Verb::Send, 1)},
                           {message(0, Verb::Recv, 0), message(1, Verb::Send, 0)}};
  std::mt19937 random(1);
  EXPECT_TRUE(run(two_ranks(), lists, 1, random).stuck);
}

TEST(CollectiveHarness, SeesAMessageNobodyTakes) {
  const StepLists lists = {{message(0, Verb::Send, 1)}, {}};
  std::mt19937 random(1);
  EXPECT_EQ(run(two_ranks(), lists, 1, random).unread, 1u);
}

TEST(CollectiveHarness, SeesAMissingContribution) {
  const StepLists lists = {{message(0, Verb::Send, 1)}, {message(0, Verb::RecvAdd, 0)}};
  std::mt19937 random(1);
  EXPECT_EQ(wrong_result(two_ranks(), run(two_ranks(), lists, 1, random).data),
            "element 0 of rank 0 is wrong");
}

}  // namespace
}  // namespace tutti::schedule::harness
