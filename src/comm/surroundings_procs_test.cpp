// What a container or a careless program does around the engine: a small /dev/shm, PID namespaces,
// forks; and that nothing is left behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

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

// The promise is one second; a busy machine gets some more before the test fails.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr double kPatience = 20;
#else
constexpr double kPatience = 3;
#endif

WireUpOptions unmeasured(int rank = 0, int ranks = 1) {
  WireUpOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.comm.table = R"({"rows":[]})";
  options.comm.timeout_s = 20;
  return options;
}

/// Whether this machine lets a process have namespaces of its own.
bool may_unshare(int flags) {
  Process process([flags] { check(::unshare(flags) == 0, "unshare"); });
  return process.result(within(10)).empty();
}

void check_sum(Communicator& group, float* x, std::size_t count) {
  std::fill_n(x, count, static_cast<float>(group.rank() + 1));
  group.all_reduce({x, count}, ReduceOp::Sum, "sum").wait();
  const auto expected = static_cast<float>(group.size() * (group.size() + 1) / 2);
  check(x[0] == expected && x[count - 1] == expected, "WRONG RESULT");
}

/// Gives this process a /dev/shm of 1 MiB that only it sees.
void shrink_dev_shm() {
  check(::unshare(CLONE_NEWNS) == 0 &&
            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
            ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") == 0,
        "mounting a small /dev/shm");
}

TEST(SmallDevShm, DoesNotMatter) {
  // Not where / is a folder of another root (chroot), or mounts are forbidden (containers).
  const std::string refusal = Process(shrink_dev_shm).result(within(10));
  if (!refusal.empty()) GTEST_SKIP() << "no mounts of its own here: " << refusal;
  SharedStore store;
  std::vector<Process> processes;
  for (const int rank : {0, 1}) {
    processes.emplace_back([&store, rank] {
      shrink_dev_shm();
      struct statvfs info = {};
      check(::statvfs("/dev/shm", &info) == 0 && info.f_blocks * info.f_frsize <= (1UL << 20),
            "/dev/shm is small");
      World world = wire_up(&store, unmeasured(rank, 2));
      Communicator group = everybody(world);
      constexpr std::size_t kCount = std::size_t{24} << 20;  // 96 MiB a rank
      const auto memory = group.allocate(kCount * sizeof(float));
      check_sum(group, reinterpret_cast<float*>(memory.get()), kCount);
    });
  }
  for (Process& process : processes) EXPECT_EQ(process.result(within(60)), "");
}

/// A rank as process 1 of a PID namespace of its own, where it sees nobody and nobody its children.
/// Its pid, as this process knows it, is stored under "pid/RANK".
Process in_pid_namespace(SharedStore& store, int rank, const std::function<void()>& body) {
  return Process([&store, rank, body] {
    check(::unshare(CLONE_NEWPID) == 0, "unshare");
    Process inner(body);
    store.set(fmt::format("pid/{}", rank), std::to_string(inner.pid()));
    const std::string error = inner.result(within(50));
    if (!error.empty()) throw std::runtime_error(error);
  });
}

TEST(PidNamespaces, OfEachRankStopNeitherWorkNorTheNewsOfADeath) {
  if (!may_unshare(CLONE_NEWPID)) GTEST_SKIP() << "no PID namespaces here";
  SharedStore store;
  std::vector<Process> processes;
  for (int rank = 0; rank < 3; ++rank) {
    processes.push_back(in_pid_namespace(store, rank, [&store, rank] {
      check(::getpid() == 1, "it is process 1");
      World world = wire_up(&store, unmeasured(rank, 3));
      Communicator all = everybody(world);
      const auto memory = all.allocate(400000);
      auto* x = reinterpret_cast<float*>(memory.get());
      std::vector<float> heap(50000);
      check_sum(all, x, 100000);
      check_sum(all, heap.data(), heap.size());
      store.add("running", 1);
      const core::Deadline patience = within(30);
      try {
        while (!patience.passed()) all.barrier("until somebody dies").wait();
      } catch (const core::PeerError& error) {
        check(error.rank() == 1, std::string("names rank 1: ") + error.what());
      }
      check(!patience.passed(), "nobody told of the death");
      store.add("told", 1);
      world.shrink({0, 2});  // none sees the other's pid, but the dead one's connection is gone
      Communicator rest = world.group("rest", {0, 2});
      check_sum(rest, x, 100000);
    }));
  }
  const core::Deadline patience = within(30);
  while (store.add("running", 0) < 3 && !patience.passed()) ::usleep(1000);
  ASSERT_EQ(store.add("running", 0), 3);
  const core::Stopwatch watch;
  // Process 1 of a namespace takes the rest of it along.
  ::kill(std::stoi(store.get("pid/1", within(5))), SIGKILL);
  while (store.add("told", 0) < 2 && !patience.passed()) ::usleep(1000);
  EXPECT_LT(watch.elapsed().count(), 1.0);
  for (const int r : {0, 2}) EXPECT_EQ(processes[r].result(within(40)), "");
  EXPECT_EQ(processes[1].result(within(10)), "killed by signal 9");
}

TEST(PidNamespaces, KeepALivingRankFromBeingEvictedAndItSaysSo) {
  if (!may_unshare(CLONE_NEWPID)) GTEST_SKIP() << "no PID namespaces here";
  SharedStore store;
  std::vector<Process> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.push_back(in_pid_namespace(store, rank, [&store, rank] {
      World world = wire_up(&store, unmeasured(rank, 2));
      Communicator all = everybody(world);
      all.barrier("together").wait();
      if (rank == 0) {
        std::string text = "accepted";
        try {
          world.shrink({0});
        } catch (const core::RunError& error) {
          text = error.what();
        }
        store.set("text", text);
      }
      store.get("text", within(20));
    }));
  }
  EXPECT_THAT(store.get("text", within(20)),
              HasSubstr("rank 1 cannot be evicted: it lives in this process or in another PID"));
  for (Process& process : processes) EXPECT_EQ(process.result(within(20)), "");
}

int exit_status(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Whatever a child of a fork tries would be in its parent's name.
TEST(Fork, AfterWireUpMayNeitherTalkNorMakeMemoryNorEndTheRun) {
  SharedStore store;
  auto processes = start_processes(
      store, 2,
      [](World& world, int rank) {
        Communicator group = everybody(world);
        group.barrier("before").wait();
        std::vector<std::shared_ptr<std::byte>> kept;
        const std::vector<std::function<void()>> attempts = {
            [&] { group.barrier("").wait(); },
            [&] { group.progress(); },
            [&] { (void)group.allocate(std::size_t{64} << 20); },  // would be announced to peers
            [&] { (void)group.allocate_shared(4096, ""); },
            [&] {
              (void)world.group("of a child", {0, 1});
            },
            [&] { world.shrink({rank}); },
            [&] { world.abort("says a child"); }};
        for (const auto& attempt : attempts) {
          const pid_t child = ::fork();
          if (child == 0) {
            ::alarm(20);
            int status = 1;
            try {
              attempt();
            } catch (const core::RunError& error) {
              status = std::string(error.what()).find("was forked from rank") == std::string::npos;
            }
            ::_exit(status);
          }
          check(exit_status(child) == 0, "the child was refused by name");
        }
        // The parent's own memory and groups are none the worse.
        kept.push_back(group.allocate(std::size_t{80} << 20));
        check_sum(group, reinterpret_cast<float*>(kept.back().get()), 1000000);
        Communicator later = everybody(world);
        check_sum(later, reinterpret_cast<float*>(kept.back().get()), 1000000);
      },
      unmeasured());
  for (Process& process : processes) EXPECT_EQ(process.result(within(60)), "");
}

// A child that ends in order runs destructors, whatever locks other threads held when it came to
// be.
TEST(Fork, ChildrenMayDestroyWhatTheyInheritedAtAnyMoment) {
  SharedStore store;
  auto processes = start_processes(
      store, 2,
      [](World& world, int) {
        Communicator busy = everybody(world);
        std::atomic<bool> over = false;
        std::jthread other([&] {
          while (!over) {
            busy.progress();  // holds the engine's lock most of the time
            (void)busy.allocate(100);
          }
        });
        int bad = 0;
        for (int i = 0; i < 60; ++i) {
          Communicator idle = everybody(world);
          auto memory = idle.allocate(1000);
          const pid_t child = ::fork();
          if (child == 0) {
            ::alarm(10);  // a hang is the other way to fail
            memory.reset();
            idle = Communicator();
            { const World inherited = std::move(world); }
            ::_exit(0);
          }
          bad += exit_status(child) != 0 ? 1 : 0;
        }
        over = true;
        other.join();
        check(bad == 0, fmt::format("{} children did not end well", bad));
        busy.barrier("the parents go on").wait();
      },
      unmeasured());
  for (Process& process : processes) EXPECT_EQ(process.result(within(90)), "");
}

struct Left {
  std::size_t descriptors = 0, mappings = 0, threads = 0;
  friend bool operator==(const Left&, const Left&) = default;
};
Left left_now() {
  Left left;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++left.descriptors;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    left.mappings += line.find("/memfd:tutti") != std::string::npos ? 1 : 0;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    (void)entry;
    ++left.threads;
  }
  return left;
}

TEST(Worlds, LeaveNoDescriptorMappingOrThreadBehindHoweverTheyEnd) {
  Left first;
  for (int round = 0; round < 6; ++round) {
    testing::run_as_threads(
        3,
        [round](World& world, int rank) {
          std::vector<float> x(6000);
          std::vector<Communicator> groups;
          for (int i = 0; i < 4; ++i) groups.push_back(everybody(world));
          (void)groups[0].allocate(std::size_t{3} << 20);
          Pending pending = groups[0].all_reduce({x.data(), x.size()}, ReduceOp::Sum, "");
          if (round % 3 == 0) pending.wait();
          if (round % 3 == 1 && rank == 1) world.abort("no more");
          if (round % 3 == 2)
            groups[1]
                .all_reduce({x.data(), 3U + static_cast<std::size_t>(rank)}, ReduceOp::Sum, "")
                .wait();
        },
        unmeasured());
    const Left now = left_now();
    if (round == 0) first = now;
    EXPECT_EQ(now.mappings, 0U);
    EXPECT_EQ(now, first) << now.descriptors << " descriptors, " << now.threads << " threads";
  }
}

// Its clock went on while it did not: the deadline has passed when it wakes up, but all have come.
TEST(Stop, OfTheWaitingRankItselfIsNobodysDelay) {
  SharedStore store;
  WireUpOptions options = unmeasured();
  options.comm.timeout_s = 0.5;
  auto processes = start_processes(
      store, 2,
      [&store](World& world, int rank) {
        Communicator group = everybody(world);
        group.barrier("together").wait();
        if (rank == 1) store.get("stopped", within(20));
        if (rank == 0) store.set("waits", "");
        group.barrier("one of them is stopped").wait();
        store.set(fmt::format("through/{}", rank), "");
        store.get("continued", within(20));
      },
      options);
  store.get("waits", within(20));
  ::usleep(100000);  // in the barrier by now
  processes[0].signal(SIGSTOP);
  ::usleep(20000);
  store.set("stopped", "");
  store.get("through/1", within(20));
  ::usleep(600000);  // longer than the deadline
  processes[0].signal(SIGCONT);
  store.set("continued", "");
  for (Process& process : processes) EXPECT_EQ(process.result(within(20)), "");
}

TEST(Groups, ThirtyTwoOnEightProcessesAreThereWithinASecond) {
  SharedStore store;
  auto processes = start_processes(
      store, 8,
      [&store](World& world, int rank) {
        everybody(world).barrier("together").wait();
        const core::Stopwatch watch;
        std::vector<Communicator> groups;
        for (int i = 0; i < 32; ++i) groups.push_back(everybody(world));
        for (Communicator& group : groups) group.barrier("made").wait();
        const double seconds = watch.elapsed().count();
        if (rank == 0) store.set("seconds", fmt::format("{:.3f}", seconds));
        check(seconds < kPatience, fmt::format("{:.3f} s", seconds));
      },
      unmeasured());
  for (Process& process : processes) EXPECT_EQ(process.result(within(60)), "");
  std::printf("32 groups on 8 ranks, made and met: %s s\n",
              store.get("seconds", within(5)).c_str());
}

}  // namespace
}  // namespace tutti::comm
