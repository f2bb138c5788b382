// Going on after a death: shrink, grow, evicted ranks that are only stopped; forks; the recorder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/json.h"
#include "core/temporary_folder.h"

namespace tutti::comm {
namespace {

using testing::check;
using testing::everybody;
using ::testing::HasSubstr;
using testing::Process;
using testing::SharedStore;
using testing::start_processes;
using testing::within;

// What a sum over these world ranks must be, and that it is.
void check_sum(Communicator& group, float* x, std::size_t count, float expected) {
  group.all_reduce({x, count}, ReduceOp::Sum, "sum").wait();
  for (std::size_t i = 0; i < count; ++i) {
    check(x[i] == expected, "element " + std::to_string(i) + " is " + std::to_string(x[i]));
  }
}

TEST(Shrink, GoesOnWithTheSurvivorsOfADeathAndKeepsTheirArenas) {
  SharedStore store;
  constexpr std::size_t kCount = 50000;
  auto processes = start_processes(store, 4, [](World& world, int rank) {
    Communicator all = everybody(world);
    const auto memory = all.allocate(kCount * sizeof(float));
    auto* x = reinterpret_cast<float*>(memory.get());
    std::fill_n(x, kCount, static_cast<float>(rank));
    try {  // its death may overtake the end of the barrier elsewhere
      all.barrier("together").wait();
      if (rank == 1) ::raise(SIGKILL);
      for (;;) all.barrier("until it is seen").wait();
    } catch (const core::PeerError& error) {
      check(error.rank() == 1, "the culprit is named");
    }
    world.shrink({0, 2, 3});
    check(world.epoch() == 1 && world.members() == std::vector<int>{0, 2, 3}, "members");
    Communicator rest = world.group("rest", {0, 2, 3});
    check_sum(rest, x, kCount, 5.0F);
    bool ended = false;
    try {
      all.barrier("of the old epoch").wait();
    } catch (const std::exception&) {
      ended = true;
    }
    check(ended, "groups of the old epoch have ended");
  });
  for (const int r : {0, 2, 3}) EXPECT_EQ(processes[r].result(within(30)), "");
  EXPECT_EQ(processes[1].result(within(5)), "killed by signal 9");
}

// The stopped rank stops in the middle of a large two-shot, in which it stores into the others'
// buffers. After shrink() nothing of theirs may change any more, whatever happens to it.
TEST(Shrink, KillsAStoppedRankBeforeItCanWriteIntoMemoryWithANewLife) {
  for (int round = 0; round < 5; ++round) {
    SharedStore store;
    constexpr std::size_t kCount = 4'000'000;
    WireUpOptions options;
    options.comm.timeout_s = 0.5;
    auto processes = start_processes(
        store, 3,
        [&store](World& world, int rank) {
          Communicator all = everybody(world);
          const auto memory = all.allocate(kCount * sizeof(float));
          auto* x = reinterpret_cast<float*>(memory.get());
          std::fill_n(x, kCount, 0.0F);
          store.add("running", 1);
          try {
            for (;;) all.all_reduce({x, kCount}, ReduceOp::Sum, "large").wait();
          } catch (const core::PeerError&) {
          }
          if (rank == 2) return;
          world.shrink({0, 1});
          std::fill_n(x, kCount, 7.0F);
          store.add("shrunk", 1);
          while (store.add("continued", 0) == 0) ::usleep(1000);
          ::usleep(50000);
          for (std::size_t i = 0; i < kCount; ++i) check(x[i] == 7.0F, "an evicted rank wrote");
        },
        options);
    const core::Deadline patience = within(30);
    while (store.add("running", 0) < 3 && !patience.passed()) ::usleep(1000);
    ::usleep(1000 * (1 + round * 3));
    processes[2].signal(SIGSTOP);
    while (store.add("shrunk", 0) < 2 && !patience.passed()) ::usleep(1000);
    processes[2].signal(SIGCONT);
    store.add("continued", 1);
    for (const int r : {0, 1}) EXPECT_EQ(processes[r].result(within(30)), "") << round;
    EXPECT_EQ(processes[2].result(within(5)), "killed by signal 9");
  }
}

// It may be writing a last checkpoint.
TEST(Shrink, LeavesARankAliveThatLeftInOrder) {
  SharedStore store;
  std::vector<Process> processes;
  for (const int rank : {0, 1, 2}) {
    processes.emplace_back([&, rank] {
      WireUpOptions options;
      options.rank = rank;
      options.ranks = 3;
      {
        World world = wire_up(&store, options);
        Communicator all = everybody(world);
        all.barrier("together").wait();
        if (rank != 2) {
          try {
            all.barrier("without rank 2").wait();
          } catch (const core::PeerError& error) {
            check(error.rank() == 2, error.what());
          }
          world.shrink({0, 1});
          Communicator rest = world.group("rest", {0, 1});
          rest.barrier("went on").wait();
        }
      }
      store.add("out", 1);
      const core::Deadline patience = within(20);
      while (store.add("out", 0) < 3 && !patience.passed()) ::usleep(1000);
      check(store.add("out", 0) == 3, "all got out of their worlds");
    });
  }
  for (Process& process : processes) EXPECT_EQ(process.result(within(30)), "");
}

TEST(Grow, LetsOtherThreadsCommunicateWhileJoinersAreAwaited) {
  SharedStore store;
  WireUpOptions options;
  options.wire_up_timeout_s = 1.5;
  const auto errors = testing::run_as_threads(
      2,
      [&](World& world, int rank) {
        Communicator all = everybody(world);
        std::thread growing([&] {
          try {
            world.grow(store, {2});
          } catch (const core::PeerError&) {  // nobody comes
          }
        });
        ::usleep(100000);  // both wait for the joiner by now
        const core::Stopwatch watch;
        all.barrier("meanwhile").wait();
        const double seconds = watch.elapsed().count();
        growing.join();
        check(seconds < 0.5, "rank " + std::to_string(rank) + " waited for the joiner");
      },
      options);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Grow, TakesANewProcessInAPlaceThatBecameFreeAndAtANewNumber) {
  SharedStore store;
  constexpr std::size_t kCount = 30000;
  const std::vector<int> joiners = {1, 3};
  const auto work = [](World& world, int rank) {
    Communicator all = world.group("grown", world.members());
    const auto memory = all.allocate(kCount * sizeof(float));
    auto* x = reinterpret_cast<float*>(memory.get());
    std::fill_n(x, kCount, static_cast<float>(rank + 1));
    check_sum(all, x, kCount, 10.0F);
    std::vector<float> heap(kCount, 1.0F);
    check_sum(all, heap.data(), kCount, 4.0F);
  };
  auto processes = start_processes(store, 3, [&](World& world, int rank) {
    Communicator all = everybody(world);
    const auto kept = all.allocate(std::size_t{2} << 20);  // joiners must hear of it
    try {  // its death may overtake the end of the barrier elsewhere
      all.barrier("together").wait();
      if (rank == 1) ::raise(SIGKILL);
      for (;;) all.barrier("until it is seen").wait();
    } catch (const core::PeerError&) {
    }
    world.shrink({0, 2});
    world.grow(store, joiners);
    check(world.size() == 4 && world.epoch() == 2, "size");
    work(world, rank);
    auto* y = reinterpret_cast<float*>(kept.get());
    std::fill_n(y, kCount, 1.0F);
    Communicator again = world.group("again", world.members());
    check_sum(again, y, kCount, 4.0F);
  });
  std::vector<Process> late;
  for (const int rank : joiners) {
    late.emplace_back([&, rank] {
      WireUpOptions options;
      options.rank = rank;
      options.ranks = 4;
      options.join = WireUpOptions::Join{{0, 2}, joiners, 1};
      World world = wire_up(&store, options);
      work(world, rank);
      std::vector<float> y(kCount, 1.0F);
      Communicator again = world.group("again", world.members());
      check_sum(again, y.data(), kCount, 4.0F);
    });
  }
  for (const int r : {0, 2}) EXPECT_EQ(processes[r].result(within(30)), "");
  for (Process& process : late) EXPECT_EQ(process.result(within(30)), "");
  EXPECT_EQ(processes[1].result(within(5)), "killed by signal 9");
}

TEST(Fork, AfterWireUpIsRefusedInTheChildAndHarmlessForTheParent) {
  SharedStore store;
  auto processes = start_processes(store, 2, [](World& world, int rank) {
    Communicator group = everybody(world);
    group.barrier("before").wait();
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 1;
      try {
        float x = 1;
        group.all_reduce({&x, 1}, ReduceOp::Sum, "in the child").wait();
      } catch (const core::RunError& error) {
        status =
            std::string(error.what()).find("was forked from rank") != std::string::npos ? 0 : 2;
      }
      ::_exit(status);
    }
    float x = static_cast<float>(rank);
    group.all_reduce({&x, 1}, ReduceOp::Sum, "in the parent").wait();
    check(x == 1.0F, "sum");
    int status = -1;
    ::waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child was refused by name");
  });
  for (Process& process : processes) EXPECT_EQ(process.result(within(30)), "");
}

core::Json read_json(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return core::Json::parse(text.str(), nullptr, false);
}

TEST(FlightRecorder, IsDumpedOnFailureWithTheLastThousandOperations) {
  const core::TemporaryFolder folder("flight");
  SharedStore store;
  std::vector<Process> processes;
  for (const int rank : {0, 1}) {
    processes.emplace_back([&, rank] {
      WireUpOptions options;
      options.rank = rank;
      options.ranks = 2;
      options.comm.flight_file = folder.path() / ("rank-" + std::to_string(rank) + ".json");
      World world = wire_up(&store, options);
      Communicator group = world.group("dp", {0, 1});
      std::vector<float> x(100);
      for (int i = 0; i < 1500; ++i)
        group.all_reduce({x.data(), 100}, ReduceOp::Sum, "step").wait();
      if (rank == 1) ::raise(SIGKILL);
      group.all_reduce({x.data(), 99}, ReduceOp::Sum, "the last one").wait();
    });
  }
  EXPECT_THAT(processes[0].result(within(30)), HasSubstr("rank 1"));
  const core::Json json = read_json(folder.path() / "rank-0.json");
  ASSERT_TRUE(json.is_object());
  const core::Json& operations = json["operations"];
  ASSERT_EQ(operations.size(), 1024U);
  EXPECT_EQ(operations.back()["label"], "the last one");
  EXPECT_EQ(operations.back()["number"], 1501);
  EXPECT_EQ(operations.back()["bytes"], 396);
  EXPECT_EQ(operations.back()["state"], "started");
  EXPECT_EQ(operations[1022]["state"], "done");
  EXPECT_EQ(operations[1022]["number"], 1500);
}

TEST(FlightRecorder, IsWrittenByAHangingRankOnSigusr1) {
  const core::TemporaryFolder folder("flight");
  const std::string path = folder.path() / "rank.json";
  SharedStore store;
  WireUpOptions options;
  options.comm.flight_file = path;
  auto processes = start_processes(
      store, 2,
      [&](World& world, int rank) {
        world.dump_on_signal();
        Communicator group = everybody(world);
        group.barrier("together").wait();
        store.add("here", 1);
        if (rank == 1) ::pause();
        group.barrier("hangs").wait();
      },
      options);
  const core::Deadline patience = within(20);
  while (store.add("here", 0) < 2 && !patience.passed()) ::usleep(1000);
  processes[0].signal(SIGUSR1);
  const core::Stopwatch watch;
  while (::access(path.c_str(), R_OK) != 0 && !patience.passed()) ::usleep(1000);
  EXPECT_LT(watch.elapsed().count(), 1.5);
  const core::Json json = read_json(path);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["operations"].back()["label"], "hangs");
  for (Process& process : processes) process.signal(SIGKILL);
}

}  // namespace
}  // namespace tutti::comm
