// What ends a group: mismatches, deadlines, leavers, aborts; and arguments that are refused at
// once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/message.h"
#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "core/clock.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::everybody;
using testing::expect_no_errors;

TEST(Mismatch, IsToldOnBothSidesWithBothSignatures) {
  const auto errors = testing::run_as_threads(2, [](World& world, int rank) {
    Communicator group = world.group("dp", {0, 1});
    group.barrier("before").wait();
    std::vector<std::uint16_t> x(262144);
    const std::size_t count = rank == 0 ? 262144 : 1025;
    group.all_reduce({x.data(), count, DType::BFloat16}, ReduceOp::Sum, "x").wait();
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, ::testing::HasSubstr("all_reduce #2 (sum, bfloat16, 262144 elements)"));
    EXPECT_THAT(error, ::testing::HasSubstr("all_reduce #2 (sum, bfloat16, 1025 elements)"));
    EXPECT_THAT(error, ::testing::HasSubstr("in group dp"));
  }
}

TEST(Mismatch, OfOperationTypeRootCountsAndMessagesIsSeen) {
  float x[8] = {};
  const std::int64_t ab[] = {3, 1}, ba[] = {1, 3};
  using Issue = std::function<Pending(Communicator&)>;
  const std::vector<std::pair<Issue, Issue>> cases = {
      {[&](auto& g) { return g.barrier("b"); },
       [&](auto& g) {
         return g.all_reduce({x, 4}, ReduceOp::Sum, "r");
       }},
      {[&](auto& g) {
         return g.all_reduce({x, 4}, ReduceOp::Sum, "r");
       },
       [&](auto& g) {
         return g.all_reduce({x, 4}, ReduceOp::Max, "r");
       }},
      {[&](auto& g) {
         return g.broadcast({x, 4}, 0, "r");
       },
       [&](auto& g) {
         return g.broadcast({x, 4}, 1, "r");
       }},
      {[&](auto& g) {
         return g.all_reduce({x, 4}, ReduceOp::Sum, "r");
       },
       [&](auto& g) {
         return g.all_reduce({x, 4, DType::Int32}, ReduceOp::Sum, "r");
       }},
      {[&](auto& g) {
         return g.reduce_scatter({x, 3}, {x, 4}, ab, ReduceOp::Sum, "r");
       },
       [&](auto& g) {
         return g.reduce_scatter({x + 1, 3}, {x, 4}, ba, ReduceOp::Sum, "r");
       }}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const auto errors = testing::run_as_threads(2, [&](World& world, int rank) {
      Communicator group = everybody(world);
      (rank == 0 ? cases[i].first : cases[i].second)(group).wait();
    });
    for (const auto& error : errors) EXPECT_THAT(error, ::testing::HasSubstr("same operations"));
  }
}

// Only the second is asked for, but it is the first that does not go on.
// Two lists whose hashes agree in every 16 bits that a narrow field might have kept.
TEST(Mismatch, OfUnevenCountsIsSeenThoughShortHashesOfThemAgree) {
  constexpr std::int64_t kWhole = 4000;
  const auto short_hash = [](std::int64_t first) {
    const std::int64_t counts[] = {first, kWhole - first};
    const std::uint64_t hash =
        text_hash({reinterpret_cast<const char*>(counts), sizeof(counts)}, text_hash("plain"));
    return static_cast<std::uint16_t>(hash ^ (hash >> 16) ^ (hash >> 32) ^ (hash >> 48));
  };
  std::map<std::uint16_t, std::int64_t> seen;
  std::int64_t one = 0, other = 0;
  for (; one <= kWhole; ++one) {
    const auto [entry, is_new] = seen.emplace(short_hash(one), one);
    if (is_new) continue;
    other = entry->second;
    break;
  }
  ASSERT_LE(one, kWhole);
  const auto errors = testing::run_as_threads(2, [&](World& world, int rank) {
    Communicator group = everybody(world);
    const std::int64_t first = rank == 0 ? one : other;
    const std::vector<std::int64_t> counts = {first, kWhole - first};
    std::vector<float> out(kWhole), in(static_cast<std::size_t>(counts[rank]));
    group.all_gather({out.data(), out.size()}, {in.data(), in.size(), DType::Float32}, counts, "")
        .wait();
  });
  for (const auto& error : errors) EXPECT_THAT(error, ::testing::HasSubstr("with other counts"));
}

TEST(Deadline, HoldsForWhatIsAheadInTheQueueToo) {
  WireUpOptions options;
  options.comm.timeout_s = 0.3;
  using Issue = std::function<Pending(Communicator&, const char*)>;
  std::vector<float> x(5000);
  const std::vector<Issue> issues = {
      [&](Communicator& group, const char* label) {
        return group.all_reduce({x.data(), x.size()}, ReduceOp::Sum, label);
      },
      [&](Communicator& group, const char* label) {
        return group.recv({x.data(), 8}, 1, 5, label);
      }};
  for (const Issue& issue : issues) {
    std::atomic<bool> over = false;
    const auto errors = testing::run_as_threads(
        2,
        [&](World& world, int rank) {
          Communicator group = everybody(world);
          if (rank == 1) {
            while (!over) std::this_thread::yield();
            return;
          }
          Pending first = issue(group, "the first"), second = issue(group, "the second");
          const core::Deadline patience(core::Seconds(20));
          while (!second.done() && !patience.passed()) std::this_thread::yield();
          const bool in_time = !patience.passed();
          over = true;
          ASSERT_TRUE(in_time) << "nobody ends it";
          ASSERT_TRUE(first.done());
          second.wait();
        },
        options);
    EXPECT_THAT(errors[0], ::testing::HasSubstr("is late: rank 0 has waited"));
    EXPECT_THAT(errors[0], ::testing::HasSubstr("the first"));
    EXPECT_EQ(errors[1], "");
  }
}

TEST(Deadline, GivesAReportThatNamesWhoIsMissingAndWhatItDoes) {
  WireUpOptions options;
  options.comm.timeout_s = 0.3;
  std::atomic<int> stopped = 0;
  const auto errors = testing::run_as_threads(
      3,
      [&](World& world, int rank) {
        Communicator group = everybody(world);
        group.barrier("together").wait();
        world.set_activity("loader.next");
        std::vector<float> x(5000);
        if (rank == 1) {
          while (stopped < 2) std::this_thread::yield();
          return;
        }
        try {
          group.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "bucket 3 (blocks.7)").wait();
        } catch (...) {
          ++stopped;
          throw;
        }
      },
      options);
  EXPECT_EQ(errors[1], "");
  for (const int r : {0, 2}) {
    for (const char* part : {"all_reduce #2 of group all is late",
                             "bucket 3 (blocks.7), 20,000 bytes", "arrived   0 2 (2 of 3)",
                             "missing   rank 1", "last: #1 done", "in loader.next", "timeout_s"}) {
      EXPECT_THAT(errors[r], ::testing::HasSubstr(part));
    }
  }
}

// The whole text; only what differs from run to run is replaced.
TEST(Deadline, ReportReadsLikeThis) {
  WireUpOptions options;
  options.comm.timeout_s = 0.3;
  std::atomic<bool> over = false;
  auto errors = testing::run_as_threads(
      2,
      [&](World& world, int rank) {
        Communicator group = world.group("dp", {0, 1});
        group.barrier("together").wait();
        world.set_activity("loader.next");
        if (rank == 1) {
          while (!over) std::this_thread::yield();
          return;
        }
        std::vector<float> x(26214400 / 4);
        try {
          group.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "bucket 3 (blocks.7.fc.weight)")
              .wait();
        } catch (...) {
          over = true;
          throw;
        }
      },
      options);
  const std::regex pid("pid [0-9]+"), ago("[0-9.]+ (ms|s|us) ago"), spent("for [0-9.]+ (ms|s|us)"),
      waited("has waited [0-9.]+ (ms|s)");
  std::string text = std::regex_replace(errors[0], pid, "pid P");
  text = std::regex_replace(text, ago, "T ago");
  text = std::regex_replace(text, spent, "for T");
  text = std::regex_replace(text, waited, "has waited T");
  EXPECT_EQ(
      text,
      "rank 0: all_reduce #2 of group dp is late: rank 0 has waited T (deadline 300 ms).\n"
      "  what      bucket 3 (blocks.7.fc.weight), 26,214,400 bytes, sum, float32, 6553600 "
      "elements\n"
      "  arrived   0 (1 of 2), the last one (rank 0) T ago\n"
      "  missing   rank 1  pid P  last: #1 done T ago, for T in loader.next\n"
      "  so        rank 1 lives but has not come: it is slow, or waits for something else.\n"
      "  then      if it is only slow, raise [comm] timeout_s; its log says what it did last.");
}

TEST(Leaving, IsAnErrorOnlyForThoseWhoStillWait) {
  const auto errors = testing::run_as_threads(3, [](World& world, int rank) {
    Communicator all = everybody(world);
    all.barrier("last of rank 2").wait();
    if (rank == 2) return;  // leaves in order
    Communicator pair = world.group("pair", {0, 1});
    for (int i = 0; i < 100; ++i) pair.barrier("among us").wait();
    all.barrier("one too many").wait();
  });
  EXPECT_THAT(errors[0], ::testing::HasSubstr("rank 2 has left the run while rank"));
  EXPECT_THAT(errors[1], ::testing::HasSubstr("rank 2 has left the run while rank"));
  EXPECT_EQ(errors[2], "");
}

TEST(Abort, StopsEverybodyWithTheReason) {
  const auto errors = testing::run_as_threads(3, [](World& world, int rank) {
    Communicator group = everybody(world);
    if (rank == 1) {
      world.abort("the disk is full");
      return;
    }
    group.barrier("never").wait();
  });
  EXPECT_THAT(errors[0], ::testing::HasSubstr("rank 1 stops the run: the disk is full"));
  EXPECT_THAT(errors[2], ::testing::HasSubstr("rank 1 stops the run: the disk is full"));
}

TEST(Poison, EveryLaterOperationThrowsTheFirstError) {
  const auto errors = testing::run_as_threads(2, [](World& world, int rank) {
    Communicator group = everybody(world);
    if (rank == 1) {
      world.abort("first");
      return;
    }
    Pending pending;
    try {
      pending = group.barrier("a");
      pending.wait();
      FAIL() << "the barrier went through";
    } catch (const core::PeerError&) {
    }
    EXPECT_THROW(pending.wait(), core::PeerError);
    EXPECT_TRUE(pending.done());
    EXPECT_THROW(group.barrier("b").wait(), core::PeerError);
  });
  expect_no_errors(errors);
}

TEST(Arguments, ThatMakeNoSenseAreRefusedBeforeAnythingIsSent) {
  expect_no_errors(testing::run_as_threads(2, [](World& world, int) {
    Communicator group = everybody(world);
    std::int32_t ints[4] = {};
    float x[8] = {};
    const std::int64_t wrong[] = {1, 2}, negative[] = {5, -1}, shares[] = {2, 2};
    EXPECT_THROW(group.all_reduce({ints, 4, DType::Int32}, ReduceOp::Avg, ""),
                 std::invalid_argument);
    EXPECT_THROW(group.reduce_scatter({x, 2}, {x, 4}, wrong, ReduceOp::Sum, ""),
                 std::invalid_argument);
    EXPECT_THROW(group.reduce_scatter({x, 2}, {x, 4}, negative, ReduceOp::Sum, ""),
                 std::invalid_argument);
    EXPECT_THROW(group.reduce_scatter({x + 1, 2}, {x, 4}, shares, ReduceOp::Sum, ""),
                 std::invalid_argument);
    EXPECT_THROW(group.broadcast({x, 4}, 2, ""), std::invalid_argument);
    EXPECT_THROW(group.send({x, 4, DType::Float32}, group.rank(), 0, ""), std::invalid_argument);
    EXPECT_THROW(group.all_reduce({nullptr, 4}, ReduceOp::Sum, ""), std::invalid_argument);
    EXPECT_THROW(world.group("half", {1, 0}), std::invalid_argument);
    ReduceStats stats;
    const std::int64_t starts[] = {0, 3};  // the cut at 2 lies inside a block
    stats.block_starts = starts;
    EXPECT_THROW(group.reduce_scatter({x + 6, 2}, {x, 4}, shares, ReduceOp::Sum, "", &stats),
                 std::invalid_argument);
    group.barrier("still in step").wait();
  }));
}

}  // namespace
}  // namespace tutti::comm
