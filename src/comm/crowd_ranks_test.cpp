// Many groups, many threads, small operations recycled between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::everybody;
using testing::expect_no_errors;

WireUpOptions unmeasured() {
  WireUpOptions options;
  options.comm.table = R"({"rows":[]})";
  options.comm.timeout_s = 60;
  return options;
}

/// Runs `body` in `count` threads; rethrows the first of their errors.
void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < count; ++t) {
      threads.emplace_back([&, t] {
        try {
          body(t);
        } catch (...) {
          errors[static_cast<std::size_t>(t)] = std::current_exception();
        }
      });
    }
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

TEST(Crowd, SixtyFourGroupsAtOnceAllHaveOperationsUnderWay) {
  expect_no_errors(testing::run_as_threads(
      4,
      [](World& world, int rank) {
        constexpr std::size_t kGroups = 64, kCount = 700;
        std::vector<Communicator> groups;
        for (std::size_t i = 0; i < kGroups; ++i) {
          // Of all and of halves; names repeat on purpose.
          const bool low = rank < 2;
          groups.push_back(i % 2 == 0
                               ? everybody(world)
                               : world.group("half", low ? std::vector{0, 1} : std::vector{2, 3}));
        }
        std::mt19937 random(static_cast<unsigned>(rank));  // each rank has an order of its own
        for (int round = 0; round < 3; ++round) {
          std::vector<std::vector<float>> x(kGroups,
                                            std::vector<float>(kCount, static_cast<float>(rank)));
          std::vector<Pending> pending(kGroups);
          std::vector<std::size_t> order(kGroups);
          std::iota(order.begin(), order.end(), 0);
          std::shuffle(order.begin(), order.end(), random);
          for (const std::size_t i : order) {
            const std::size_t count = i % 3 == 0 ? 5 : kCount;
            pending[i] = groups[i].all_reduce({x[i].data(), count}, ReduceOp::Sum, "one of many");
          }
          std::shuffle(order.begin(), order.end(), random);
          for (const std::size_t i : order) pending[i].wait();
          for (std::size_t i = 0; i < kGroups; ++i) {
            ASSERT_EQ(x[i][0], i % 2 == 0 ? 6.0F : rank < 2 ? 1.0F : 5.0F) << "group " << i;
          }
        }
      },
      unmeasured()));
}

// Threads of a rank own different groups and come to them in any order; every rank has its own.
TEST(Crowd, ThreadsWithGroupsOfTheirOwnDoNotDeadlockInAnyOrder) {
  expect_no_errors(testing::run_as_threads(
      3,
      [](World& world, int rank) {
        constexpr int kThreads = 3, kEach = 4, kRounds = 40;
        std::vector<Communicator> groups;
        for (int i = 0; i < kThreads * kEach; ++i) groups.push_back(everybody(world));
        in_threads(kThreads, [&](int t) {
          std::mt19937 random(static_cast<unsigned>(100 * rank + t));
          for (int round = 0; round < kRounds; ++round) {
            std::vector<int> order(kEach);
            std::iota(order.begin(), order.end(), 0);
            std::shuffle(order.begin(), order.end(), random);
            std::vector<std::vector<float>> x(
                kEach,
                std::vector<float>(round % 4 == 0 ? 3000 : 12, static_cast<float>(rank + 1)));
            std::vector<Pending> pending(kEach);
            for (const int i : order) {
              Communicator& g = groups[static_cast<std::size_t>(t * kEach + i)];
              auto& mine = x[static_cast<std::size_t>(i)];
              pending[static_cast<std::size_t>(i)] =
                  (i + round) % 5 == 4
                      ? g.broadcast({mine.data(), mine.size()}, 1, "b")
                      : g.all_reduce({mine.data(), mine.size()}, ReduceOp::Sum, "s");
            }
            std::shuffle(order.begin(), order.end(), random);
            for (const int i : order) {
              Pending& p = pending[static_cast<std::size_t>(i)];
              if (random() % 2 == 0) {
                const core::Deadline patience(core::Seconds(60));
                while (!p.done() && !patience.passed()) std::this_thread::yield();
              }
              p.wait();
              const float expected = (i + round) % 5 == 4 ? 2.0F : 6.0F;
              for (const float v : x[static_cast<std::size_t>(i)]) {
                if (v != expected) throw std::runtime_error("WRONG RESULT");
              }
            }
          }
        });
      },
      unmeasured()));
}

// A small all_reduce runs in an object that the one before it left behind, perhaps of another
// thread and group, perhaps one that failed. (ThreadSanitizer looks on.)
TEST(Crowd, SmallOperationsOfManyThreadsShareOneRecycledObject) {
  expect_no_errors(testing::run_as_threads(
      2,
      [](World& world, int rank) {
        constexpr int kThreads = 3;
        std::vector<Communicator> groups;
        for (int i = 0; i < kThreads; ++i) groups.push_back(everybody(world));
        in_threads(kThreads, [&](int t) {
          for (int i = 0; i < 400; ++i) {
            float x[3] = {static_cast<float>(rank), static_cast<float>(i), static_cast<float>(t)};
            Pending p = groups[static_cast<std::size_t>(t)].all_reduce({x, 3}, ReduceOp::Sum, "x");
            Pending copy = p;  // sometimes somebody else still holds it
            if (i % 3 == 0) p = Pending();
            copy.wait();
            if (x[0] != 1.0F || x[1] != 2.0F * static_cast<float>(i)) {
              throw std::runtime_error("WRONG RESULT");
            }
          }
        });
      },
      unmeasured()));
}

TEST(Crowd, AFailedSmallOperationKeepsItsErrorWhenOthersFollow) {
  expect_no_errors(testing::run_as_threads(
      2,
      [](World& world, int rank) {
        Communicator bad = everybody(world), good = everybody(world);
        float x[4] = {1, 1, 1, 1};
        Pending failed =
            bad.all_reduce({x, static_cast<std::size_t>(2 + rank)}, ReduceOp::Sum, "unequal");
        EXPECT_THROW(failed.wait(), core::PeerError);
        for (int i = 0; i < 100; ++i) {
          float y[2] = {1, 2};
          good.all_reduce({y, 2}, ReduceOp::Sum, "fine").wait();
          ASSERT_EQ(y[1], 4.0F);
          EXPECT_THROW(bad.all_reduce({y, 2}, ReduceOp::Sum, "late"), core::PeerError);
          EXPECT_THROW(failed.wait(), core::PeerError);
        }
      },
      unmeasured()));
}

TEST(Crowd, GroupsMayBeDroppedWhileTheirOperationsAreUnderWay) {
  expect_no_errors(testing::run_as_threads(
      3,
      [](World& world, int rank) {
        Communicator steady = everybody(world);
        for (int round = 0; round < 30; ++round) {
          std::vector<float> x(round % 2 == 0 ? 4 : 6000, static_cast<float>(rank));
          Pending pending;
          {
            Communicator passing = everybody(world);
            // One rank comes late, so that the others have let go of the group by then.
            if (rank == round % 3) steady.barrier("late").wait();
            pending = passing.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "orphan");
          }
          if (rank != round % 3) steady.barrier("late").wait();
          pending.wait();
          ASSERT_EQ(x.back(), 3.0F);
        }
      },
      unmeasured()));
}

TEST(Crowd, LeavingWithOperationsUnderWayFailsThemEverywhere) {
  std::vector<std::string> texts(2);
  std::atomic<bool> gone = false;
  expect_no_errors(testing::run_as_threads(
      2,
      [&](World& world, int rank) {
        std::vector<float> x(6000);
        Communicator group = everybody(world);
        Pending pending;
        if (rank == 0) {
          pending = group.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "never joined");
          { const World left = std::move(world); }
          gone = true;
        } else {
          while (!gone) std::this_thread::yield();
          pending = group.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "alone");
        }
        try {
          pending.wait();
        } catch (const core::RunError& error) {
          texts[static_cast<std::size_t>(rank)] = error.what();
        }
      },
      unmeasured()));
  EXPECT_THAT(texts[0],
              ::testing::HasSubstr("destroyed its World while operations were under way"));
  EXPECT_THAT(texts[1], ::testing::HasSubstr("rank 0 has left the run while rank 1 waits"));
}

}  // namespace
}  // namespace tutti::comm
