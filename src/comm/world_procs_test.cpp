// Ranks as processes: wire-up, death, stops, late comers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <random>
#include <stdexcept>

#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "comm/world.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::check;
using testing::everybody;
using ::testing::HasSubstr;
using testing::Process;
using testing::SharedStore;
using testing::start_processes;
using testing::within;

TEST(Processes, ReduceGatherAndTalkThroughArenasAndHeap) {
  for (const int ranks : {1, 2, 3, 8}) {
    SharedStore store;
    auto processes = start_processes(store, ranks, [](World& world, int rank) {
      Communicator group = everybody(world);
      constexpr std::size_t kCount = 100003;
      const auto arena = group.allocate(kCount * sizeof(float));
      auto* x = reinterpret_cast<float*>(arena.get());
      std::vector<float> heap(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        x[i] = heap[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 100);
      }
      group.all_reduce({x, kCount}, ReduceOp::Sum, "arena").wait();
      group.all_reduce({heap.data(), kCount}, ReduceOp::Sum, "heap").wait();
      const int sum = group.size() * (group.size() + 1) / 2;
      for (std::size_t i = 0; i < kCount; ++i) {
        check(x[i] == static_cast<float>(sum) * static_cast<float>(i % 100), "arena sum");
        check(x[i] == heap[i], "heap sum");
      }
      if (group.size() == 1) return;
      const int next = (rank + 1) % group.size(), before = (rank + group.size() - 1) % group.size();
      Pending sent = group.send({x, kCount, DType::Float32}, next, 3, "ring");
      group.recv({heap.data(), kCount}, before, 3, "ring").wait();
      sent.wait();
      check(heap[99] == x[99], "message");
    });
    for (Process& process : processes) EXPECT_EQ(process.result(within(60)), "") << ranks;
  }
}

TEST(Death, AtAnyMomentStopsEverybodyWithinASecondAndNamesTheRank) {
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    const int ranks = 2 + round % 3;
    const int victim = static_cast<int>(random() % ranks);
    SharedStore store;
    auto processes = start_processes(store, ranks, [&store](World& world, int) {
      Communicator group = everybody(world);
      const auto arena = group.allocate(std::size_t{1} << 20);
      std::vector<float> heap(200000, 0.0F);
      store.add("running", 1);
      for (;;) {
        group.all_reduce({arena.get(), 200000}, ReduceOp::Sum, "arena").wait();
        group.all_reduce({heap.data(), heap.size()}, ReduceOp::Max, "heap").wait();
        group.barrier("loop").wait();
      }
    });
    const core::Deadline start = within(30);
    while (store.add("running", 0) < ranks && !start.passed()) ::usleep(1000);
    ::usleep(random() % 20000);  // the moment is the test's input
    const core::Stopwatch watch;
    processes[victim].signal(SIGKILL);
    for (int r = 0; r < ranks; ++r) {
      if (r == victim) continue;
      const std::string error = processes[r].result(within(10));
      EXPECT_THAT(error, HasSubstr("rank " + std::to_string(victim) + " (pid " +
                                   std::to_string(processes[victim].pid()) + ") died"));
    }
    EXPECT_LT(watch.elapsed().count(), 1.0) << ranks << " ranks";
    EXPECT_EQ(processes[victim].result(within(5)), "killed by signal 9");
  }
}

TEST(Death, IsSeenThoughAForkedChildKeepsTheConnectionOpen) {
  SharedStore store;
  auto processes = start_processes(store, 2, [&store](World& world, int rank) {
    Communicator group = everybody(world);
    group.barrier("together").wait();
    if (rank == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(8);
        for (;;) ::pause();
      }
      store.set("child", std::to_string(child));
      ::raise(SIGKILL);
    }
    group.barrier("never").wait();
  });
  const core::Stopwatch watch;
  EXPECT_THAT(processes[0].result(within(6)), HasSubstr("its process ended"));
  EXPECT_LT(watch.elapsed().count(), 4.0);  // long before the child ends
  ::kill(std::stoi(store.get("child", within(5))), SIGKILL);
}

TEST(Deadline, ReportsAStoppedRank) {
  SharedStore store;
  WireUpOptions options;
  options.comm.timeout_s = 0.5;
  auto processes = start_processes(
      store, 3,
      [](World& world, int rank) {
        Communicator group = everybody(world);
        group.barrier("together").wait();
        world.set_activity("checkpoint");
        if (rank == 2) ::raise(SIGSTOP);
        group.barrier("step 2").wait();
      },
      options);
  for (const int r : {0, 1}) {
    const std::string error = processes[r].result(within(20));
    EXPECT_THAT(error, HasSubstr("barrier #2 of group all is late"));
    EXPECT_THAT(error, HasSubstr("missing   rank 2  pid " + std::to_string(processes[2].pid()) +
                                 " (stopped)"));
    EXPECT_THAT(error, HasSubstr("in checkpoint"));
  }
}

TEST(WireUp, NamesTheRanksThatDidNotCome) {
  SharedStore store;
  WireUpOptions options;
  options.ranks = 4;
  options.wire_up_timeout_s = 0.3;
  std::vector<Process> processes;
  for (const int rank : {0, 2}) {
    options.rank = rank;
    processes.emplace_back([&store, options] { wire_up(&store, options); });
  }
  for (Process& process : processes) {
    EXPECT_THAT(process.result(within(20)), HasSubstr("rank 1, rank 3 did not come"));
  }
}

TEST(WireUp, RefusesARankOfAnotherRun) {
  SharedStore store;
  std::vector<Process> processes;
  for (const int rank : {0, 1}) {
    WireUpOptions options;
    options.rank = rank;
    options.ranks = 2;
    options.run_id = rank == 0 ? "blue" : "red";
    options.wire_up_timeout_s = 0.5;
    processes.emplace_back([&store, options] { wire_up(&store, options); });
  }
  EXPECT_THAT(processes[0].result(within(20)),
              HasSubstr("Rank 1 came, but of run red; this is run blue"));
  EXPECT_THAT(processes[1].result(within(20)),
              HasSubstr("Rank 0 came, but of run blue; this is run red"));
}

TEST(WireUp, RefusesARankOnAnotherHost) {
  SharedStore store;
  store.set("tutti//comm/card/0/1", "tutti-1\nanother-boot\nnet:[1]\n00001\nfar-away\n0\n");
  WireUpOptions options;
  options.ranks = 2;
  options.wire_up_timeout_s = 5;
  try {
    wire_up(&store, options);
    FAIL() << "wired up";
  } catch (const core::RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 is on host far-away"));
    EXPECT_THAT(error.what(), HasSubstr("comes later"));
  }
}

TEST(Crowd, OfEightRanksOnFewCoresIsNotStarved) {
  SharedStore store;
  auto processes = start_processes(store, 8, [](World& world, int rank) {
    Communicator group = everybody(world);
    for (int i = 0; i < 200; ++i) {
      float x[16];
      std::fill_n(x, 16, static_cast<float>(rank));
      group.all_reduce({x, 16}, ReduceOp::Sum, "small").wait();
      check(x[15] == 28.0F, "sum");
    }
  });
  for (Process& process : processes) EXPECT_EQ(process.result(within(60)), "");
}

}  // namespace
}  // namespace tutti::comm
