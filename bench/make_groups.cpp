// How long a job takes to make its groups: 32 of them on 8 processes, each used once. Half of them
// have all ranks, half four of the eight. Prints milliseconds of the slowest rank; returns 1 if one
// round takes a second or more.
//
//   build/bench/make_groups [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "comm/testing.h"
#include "core/clock.h"

namespace {

using namespace tutti;

constexpr int kRanks = 8, kGroups = 32;
constexpr double kBar = 1;

std::vector<int> members(int group) {
  std::vector<int> all(kRanks);
  std::iota(all.begin(), all.end(), 0);
  if (group % 2 == 0) return all;
  std::erase_if(all, [&](int rank) { return rank % 2 != group / 2 % 2; });
  return all;
}

double make_and_use(comm::World& world, int round) {
  const core::Stopwatch watch;
  std::vector<comm::Communicator> groups;
  for (int group = 0; group < kGroups; ++group) {
    const std::vector<int> ranks = members(group);
    if (std::ranges::count(ranks, world.rank()) == 0) continue;
    groups.push_back(world.group(fmt::format("round {} group {}", round, group), ranks));
  }
  for (comm::Communicator& group : groups) group.barrier("first use").wait();
  return watch.elapsed().count();
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 9;
  comm::MappingCache cache;
  const std::size_t bytes = sizeof(double) * kRanks * static_cast<std::size_t>(rounds);
  const core::Fd fd = comm::create_shared_memory("tutti-groups", bytes);
  const auto memory = cache.map(fd.get(), bytes);
  auto* const seconds = reinterpret_cast<double*>(memory->data());
  comm::testing::SharedStore store;
  auto processes = comm::testing::start_processes(store, kRanks, [&](comm::World& world, int rank) {
    comm::Communicator all = world.group("all", members(0));
    for (int round = 0; round < rounds; ++round) {
      all.barrier("round").wait();
      seconds[round * kRanks + rank] = make_and_use(world, round);
    }
  });
  for (auto& process : processes) {
    const std::string error = process.result(core::Deadline(core::Seconds(60)));
    if (!error.empty()) {
      fmt::print(stderr, "{}\n", error);
      return 1;
    }
  }
  std::vector<double> slowest;
  for (int round = 0; round < rounds; ++round) {
    const double* of_round = seconds + round * kRanks;
    slowest.push_back(*std::max_element(of_round, of_round + kRanks));
  }
  std::ranges::sort(slowest);
  fmt::print(
      "{} groups on {} processes, made and used once: median {:.1f} ms, slowest of {} rounds "
      "{:.1f} ms\n",
      kGroups, kRanks, slowest[slowest.size() / 2] * 1e3, rounds, slowest.back() * 1e3);
  return slowest.back() < kBar ? 0 : 1;
}
