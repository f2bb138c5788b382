// Faults at random points: kill, stop, delay, a corrupt descriptor. Nobody hangs beyond its
// deadline, no result is wrong, nothing is left behind.
//
// TUTTI_FAULT_ROUNDS sets the number of rounds (the test labelled "long" runs 500).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>

#include "comm/control.h"
#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "comm/world.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::everybody;
using testing::Process;
using testing::SharedStore;
using testing::start_processes;
using testing::within;

int rounds() {
  const char* text = std::getenv("TUTTI_FAULT_ROUNDS");
  return text != nullptr ? std::atoi(text) : 24;
}

enum class Fault { Kill, Stop, Delay, Corrupt };

// Writes noise over the descriptors of rank 0 in every control block, which is what a stray pointer
// in the program would do.
void corrupt_control(std::mt19937& random) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:tutti-control") == std::string::npos) continue;
    const auto begin = std::stoull(line.substr(0, line.find('-')), nullptr, 16);
    const auto end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (end - begin < 4096 + sizeof(RankLines)) continue;
    auto* bytes = reinterpret_cast<volatile unsigned char*>(begin + 4096);  // rank 0's lines
    for (int i = 0; i < 20; ++i) {
      bytes[random() % sizeof(RankLines::slots)] = static_cast<unsigned char>(random());
    }
  }
}

void work(World& world, SharedStore& store, int rank) {
  Communicator group = everybody(world);
  constexpr std::size_t kCount = 60000;
  const auto memory = group.allocate(kCount * sizeof(float));
  auto* x = reinterpret_cast<float*>(memory.get());
  std::vector<float> heap(5000), small(20);
  store.add("running", 1);
  const int ranks = group.size();
  const core::Deadline enough = within(0.25);
  for (int i = 0;; ++i) {
    // All ranks stop after the same round: the wish is part of what is reduced.
    small.assign(20, enough.passed() ? 1.0F : 0.0F);
    group.all_reduce({small.data(), 20}, ReduceOp::Max, "enough").wait();
    if (small[7] != 0.0F) return;
    std::fill_n(x, kCount, static_cast<float>(rank + i % 10));
    std::fill(heap.begin(), heap.end(), static_cast<float>(rank));
    Pending a = group.all_reduce({x, kCount}, ReduceOp::Sum, "arena");
    Pending b = group.all_reduce({heap.data(), heap.size()}, ReduceOp::Sum, "heap");
    b.wait();
    a.wait();
    const auto sum = static_cast<float>(ranks * (ranks - 1) / 2);
    if (x[kCount - 1] != sum + static_cast<float>(ranks * (i % 10)) || heap[4999] != sum) {
      throw std::runtime_error("WRONG RESULT");
    }
  }
}

// Processes of this test that still live or were never waited for; their memory goes with them.
std::vector<std::string> processes_left() {
  std::vector<std::string> left;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "children");
    for (std::string pid; file >> pid;) left.push_back(pid);
  }
  return left;
}

TEST(Faults, AtRandomPointsHangNobodyAndSpoilNoResult) {
  std::mt19937 random(20240611);
  // What a rank might leave to init is left to this process instead, so that it can be counted.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  for (int round = 0; round < rounds(); ++round) {
    const int ranks = 2 + static_cast<int>(random() % 3);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const auto fault = static_cast<Fault>(round % 4);
    const unsigned delay_us = random() % 60000, seed = random();
    SCOPED_TRACE(fmt::format("round {}, fault {}, rank {} of {}", round, static_cast<int>(fault),
                             victim, ranks));
    SharedStore store;
    WireUpOptions options;
    options.comm.timeout_s = 2;
    auto processes = start_processes(
        store, ranks,
        [&](World& world, int rank) {
          if (rank == victim && fault == Fault::Corrupt) {
            // From another thread, in the middle of whatever this one does.
            std::thread([&store, ranks, delay_us, seed] {
              std::mt19937 noise(seed);
              while (store.add("running", 0) < ranks) ::usleep(500);
              ::usleep(delay_us);
              corrupt_control(noise);
            }).detach();
          }
          work(world, store, rank);
        },
        options);
    const core::Deadline patience = within(30);
    while (store.add("running", 0) < ranks && !patience.passed()) ::usleep(500);
    ::usleep(delay_us);
    const core::Stopwatch watch;
    if (fault == Fault::Kill) processes[victim].signal(SIGKILL);
    if (fault == Fault::Stop || fault == Fault::Delay) processes[victim].signal(SIGSTOP);
    if (fault == Fault::Delay) {
      ::usleep(200000);
      processes[victim].signal(SIGCONT);
    }
    for (int r = 0; r < ranks; ++r) {
      if (r == victim && fault == Fault::Stop) continue;
      std::string error;
      try {
        error = processes[r].result(within(12));
      } catch (const core::RunError& late) {
        ADD_FAILURE() << "rank " << r << " hangs: " << late.what();
      }
      EXPECT_THAT(error, ::testing::Not(::testing::HasSubstr("WRONG"))) << "rank " << r;
      EXPECT_TRUE(fault != Fault::Delay || error.empty()) << "rank " << r << ": " << error;
      if (fault == Fault::Kill && r != victim && !error.empty()) {
        EXPECT_THAT(error, ::testing::HasSubstr(fmt::format("rank {}", victim)));
      }
    }
    EXPECT_TRUE(fault != Fault::Kill || watch.elapsed().count() < 1.5);
    processes.clear();  // kills what is stopped
    ASSERT_THAT(processes_left(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace tutti::comm
