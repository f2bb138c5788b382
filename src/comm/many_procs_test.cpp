// Sixteen processes on however few cores: what they compute, and what they do when one of them
// fails.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::check;
using testing::everybody;
using ::testing::HasSubstr;
using testing::SharedStore;
using testing::start_processes;
using testing::within;

constexpr int kRanks = 16, kVictim = 11;
constexpr std::size_t kCount = 20000;

/// Inline, one-shot, direct, staged and a list, each with the sum that it must give.
void compute(Communicator& group, float* arena, float value, float expected) {
  std::vector<float> heap(kCount);
  for (const std::size_t count : {std::size_t{1}, std::size_t{16}, std::size_t{100}, kCount}) {
    for (float* x : {arena, heap.data()}) {
      std::fill_n(x, count, value);
      group.all_reduce({x, count}, ReduceOp::Sum, "sum").wait();
      const bool right = std::all_of(x, x + count, [=](float v) { return v == expected; });
      check(right, fmt::format("{} elements: {} is not {}", count, x[count - 1], expected));
    }
  }
  std::fill_n(arena, kCount, value);
  group.reduce({arena, kCount}, ReduceOp::Sum, 2, "reduce").wait();
  check(group.rank() != 2 || arena[kCount - 1] == expected, "reduce");
}

std::string work(World& world, SharedStore& store, int rank) {
  Communicator all = everybody(world);
  const auto memory = all.allocate(kCount * sizeof(float));
  auto* const x = reinterpret_cast<float*>(memory.get());
  compute(all, x, static_cast<float>(rank), kRanks * (kRanks - 1) / 2);
  store.add("running", 1);
  try {
    for (;;) compute(all, x, 1.0F, kRanks);
  } catch (const core::PeerError& error) {
    check(error.rank() == kVictim, error.what());
    return error.what();
  }
}

void expect_survival(SharedStore& store, int signal, double timeout_s, const char* told) {
  WireUpOptions options;
  options.comm.timeout_s = timeout_s;
  auto processes = start_processes(
      store, kRanks,
      [&](World& world, int rank) {
        // A rank that comes late may hear of the eviction before its own deadline.
        const std::string error = work(world, store, rank);
        if (error.find(told) != std::string::npos) store.add("told", 1);
        check(error.find("rank 11") != std::string::npos, error);
        std::vector<int> rest(kRanks);
        std::iota(rest.begin(), rest.end(), 0);
        std::erase(rest, kVictim);
        world.shrink(rest);
        Communicator group = world.group("rest", rest);
        const auto memory = group.allocate(kCount * sizeof(float));
        compute(group, reinterpret_cast<float*>(memory.get()), 1.0F, kRanks - 1);
      },
      options);
  const core::Deadline patience = within(60);
  while (store.add("running", 0) < kRanks && !patience.passed()) ::usleep(1000);
  ASSERT_EQ(store.add("running", 0), kRanks);
  processes[kVictim].signal(signal);
  for (int r = 0; r < kRanks; ++r) {
    if (r == kVictim) continue;
    EXPECT_EQ(processes[r].result(within(60)), "") << "rank " << r;
  }
  EXPECT_EQ(processes[kVictim].result(within(5)), "killed by signal 9");
  EXPECT_GE(store.add("told", 0), 1) << "nobody said: " << told;
}

TEST(SixteenProcesses, GoOnAsFifteenWhenOneIsKilled) {
  SharedStore store;
  expect_survival(store, SIGKILL, 60, "rank 11 (pid ");
}

TEST(SixteenProcesses, GoOnAsFifteenWhenOneStandsStill) {
  SharedStore store;
  expect_survival(store, SIGSTOP, 3, "missing   rank 11");
}

}  // namespace
}  // namespace tutti::comm
