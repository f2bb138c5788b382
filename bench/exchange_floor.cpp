// What this host's caches ask for a small all-reduce of two cores, without any engine: bare flags
// and bare additions, the floor under `tutti bench collectives`. Every buffer was just rewritten by
// its owner; the slower core of each round counts; medians in microseconds.
//
//   barrier     one flag each: one line in each direction
//   copy        memcpy of what the other core has just written
//   one-shot    copy into a slot, flag, add both: 1 sync, S / 64 lines in each direction
//   two-shot    flag, add one half into both buffers, flag: 2 syncs, S / 128 lines in each
//   direction,
//               which go back and forth (read, then asked for again by the store)
//   two-shot w  the same with lines fetched for writing before they are read: they move once
//
//   build/bench/exchange_floor [ROUNDS]
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "comm/lines.h"
#include "comm/ticks.h"
#include "tensor/target_clones.h"

namespace {

using namespace tutti;
using Flag = std::atomic<std::uint64_t>;

constexpr std::array<std::size_t, 6> kSizes = {64, 1024, 4096, 32768, 262144, 1048576};
constexpr std::array kNames = {"barrier", "copy", "one-shot", "two-shot", "two-shot w"};
constexpr std::size_t kLargest = kSizes.back();

struct Core {
  alignas(128) Flag flag = 0;
  alignas(128) Flag round = 0;  // of the barriers around each measurement
  alignas(4096) std::array<float, kLargest / 4> data;
  alignas(4096) std::array<std::array<float, kLargest / 4>, 2> slots;
  alignas(4096) std::array<float, kLargest / 4> copy;
  std::vector<std::uint64_t> times;
};

void meet(Flag& mine, const Flag& theirs, std::uint64_t number) {
  mine.store(number);
  while (theirs.load() < number) comm::pause();
}

// Both as wide as the processor can, since the engine's kernels are.
TUTTI_CLONES void add_to(float* x, const float* y, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) x[i] += y[i];
}

// Fetched as the engine's kernels do, some lines ahead.
TUTTI_CLONES void add_into_both(const float* a, const float* b, float* x, float* y,
                                std::size_t count, bool own) {
  constexpr std::size_t kBlock = 64, kAhead = 256;
  const std::size_t ahead = own ? kAhead : 0;
  const auto fetch = [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, count); i += 16) {
      comm::own_line(x + i);
      comm::own_line(y + i);
    }
  };
  fetch(0, ahead);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    if (own) fetch(begin + ahead, begin + ahead + kBlock);
    const std::size_t end = std::min(begin + kBlock, count);
#pragma GCC ivdep
    for (std::size_t i = begin; i < end; ++i) x[i] = y[i] = a[i] + b[i];
  }
}

void exchange(std::size_t kind, std::array<Core, 2>& cores, std::size_t me, std::size_t count,
              std::uint64_t number) {
  Core &mine = cores[me], &other = cores[1 - me];
  const std::size_t parity = number & 1, half = count / 2, first = me * half;
  float *const a = cores[0].data.data(), *const b = cores[1].data.data();
  switch (kind) {
    case 0:
      return meet(mine.flag, other.flag, number);
    case 1:
      std::memcpy(mine.copy.data(), other.data.data(), count * sizeof(float));
      return;
    case 2:
      std::memcpy(mine.slots[parity].data(), mine.data.data(), count * sizeof(float));
      meet(mine.flag, other.flag, number);
      return add_to(mine.data.data(), other.slots[parity].data(), count);
    default:
      meet(mine.flag, other.flag, 2 * number);
      add_into_both(a + first, b + first, a + first, b + first, half, kind == 4);
      return meet(mine.flag, other.flag, 2 * number + 1);
  }
}

double median_us(std::array<Core, 2>& cores, int rounds, const comm::TickRate& rate) {
  std::vector<std::uint64_t> slower;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rounds); ++i) {
    slower.push_back(std::max(cores[0].times[i], cores[1].times[i]));
  }
  std::nth_element(slower.begin(), slower.begin() + rounds / 2, slower.end());
  constexpr std::uint64_t kMany = 1'000'000'000;
  return static_cast<double>(slower[slower.size() / 2]) *
         rate.seconds_since(comm::ticks() - kMany) / kMany * 1e6;
}

// All kinds take turns, so that a change of the machine's phase meets all of them.
void run(std::array<Core, 2>& cores, std::size_t me, int rounds,
         std::array<std::array<double, kNames.size()>, kSizes.size()>& table,
         std::atomic<int>& wrong, const comm::TickRate& rate) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(me, &one);
  ::pthread_setaffinity_np(::pthread_self(), sizeof(one), &one);
  Core &mine = cores[me], &other = cores[1 - me];
  std::uint64_t round = 0, number = 0;
  for (std::size_t s = 0; s < kSizes.size(); ++s) {
    for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
      mine.flag.store(0);
      number = 0;
      mine.times.assign(static_cast<std::size_t>(rounds), 0);
      for (std::uint64_t& time : mine.times) {
        std::fill_n(mine.data.begin(), kSizes[s] / 4, static_cast<float>(me + 1));
        meet(mine.round, other.round, ++round);
        const std::uint64_t begin = comm::ticks();
        exchange(kind, cores, me, kSizes[s] / 4, ++number);
        time = comm::ticks() - begin;
        meet(mine.round, other.round, ++round);
        if (kind > 1 && (mine.data[0] != 3 || mine.data[kSizes[s] / 4 - 1] != 3)) ++wrong;
      }
      meet(mine.round, other.round, ++round);
      if (me == 0) table[s][kind] = median_us(cores, rounds, rate);
      meet(mine.round, other.round, ++round);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1000;
  const comm::TickRate rate;
  const auto cores = std::make_unique<std::array<Core, 2>>();
  std::array<std::array<double, kNames.size()>, kSizes.size()> table = {};
  std::atomic<int> wrong = 0;
  {
    std::jthread first([&] { run(*cores, 0, rounds, table, wrong, rate); });
    std::jthread second([&] { run(*cores, 1, rounds, table, wrong, rate); });
  }
  fmt::print("{:>8}", "bytes");
  for (const char* name : kNames) fmt::print("{:>12}", name);
  for (std::size_t s = 0; s < kSizes.size(); ++s) {
    fmt::print("\n{:>8}", kSizes[s]);
    for (const double us : table[s]) fmt::print("{:>12.3f}", us);
  }
  fmt::print("\n");
  if (wrong != 0) fmt::print(stderr, "exchange_floor: {} sums are wrong\n", wrong.load());
  return wrong == 0 ? 0 : 1;
}
