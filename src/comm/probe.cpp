// Latency from barriers, bandwidth from direct all-reduces; smaller groups scale from the world's.
#include "comm/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/clock.h"

namespace tutti::comm {
namespace {

constexpr int kBarriers = 8, kReductions = 3;
constexpr std::size_t kBytes = std::size_t{256} << 10;  // beyond the private caches' latency

enum Figure { kLatency, kBytesPerSecond };

}  // namespace

void probe(Communicator& world, const ControlBlock& block) {
  world.barrier("probe").wait();
  double latency_s = 1, reduce_s = 1;  // the best of several: others share the machine
  for (int i = 0; i < kBarriers; ++i) {
    const core::Stopwatch watch;
    world.barrier("probe").wait();
    latency_s = std::min(latency_s, watch.elapsed().count());
  }
  const auto memory = world.allocate(kBytes);
  std::memset(memory.get(), 0, kBytes);
  for (int i = 0; i < kReductions; ++i) {
    const core::Stopwatch watch;
    world.all_reduce({memory.get(), kBytes / sizeof(float)}, ReduceOp::Sum, "probe").wait();
    reduce_s = std::min(reduce_s, watch.elapsed().count());
  }
  if (world.rank() == 0) {
    const double moving_s = std::max(reduce_s - 2 * latency_s, reduce_s / 4);
    block.figures()[kLatency].store(latency_s);
    block.figures()[kBytesPerSecond].store(static_cast<double>(kBytes) / moving_s);
  }
  world.barrier("probe").wait();  // behind it everybody sees the figures
}

namespace {

constexpr int kTries = 25;
constexpr std::array<const char*, 2> kCandidates = {"one-shot", "direct"};
using Times = std::array<double, kCandidates.size()>;

// Seconds of one all-reduce by each candidate, the slowest rank's. They take turns, so that a
// change of the machine's load meets both; the lower quartile, since others only ever make it
// slower.
Times measure(Communicator& world, Engine& engine, float* x, std::size_t bytes) {
  std::array<std::array<double, kTries>, kCandidates.size()> times = {};
  CommOptions options = engine.options();
  const CommOptions before = options;
  for (int i = 0; i < kTries; ++i) {
    for (std::size_t c = 0; c < kCandidates.size(); ++c) {
      options.algorithm = kCandidates[c];
      engine.set_options(options);
      std::memset(x, 0, bytes);
      world.barrier("tune").wait();
      const core::Stopwatch watch;
      world.all_reduce({x, bytes / sizeof(float)}, ReduceOp::Sum, "tune").wait();
      times[c][static_cast<std::size_t>(i)] = watch.elapsed().count();
    }
  }
  engine.set_options(before);
  Times slowest = {};
  for (std::size_t c = 0; c < kCandidates.size(); ++c) {
    std::nth_element(times[c].begin(), times[c].begin() + kTries / 4, times[c].end());
    slowest[c] = times[c][kTries / 4];
  }
  world.all_reduce({slowest.data(), slowest.size(), DType::Float64}, ReduceOp::Max, "tune").wait();
  return slowest;
}

}  // namespace

ChoiceTable tune(Communicator& world, Engine& engine, double budget_s) {
  ChoiceTable table;
  const core::Stopwatch watch;
  const auto memory = world.allocate(ControlBlock::kOneShotBytes);
  auto* x = reinterpret_cast<float*>(memory.get());
  // Downwards: if the time is up early, one-shot is the right guess for what is left.
  for (std::size_t bytes = ControlBlock::kOneShotBytes; bytes >= 256; bytes /= 2) {
    const auto [one_shot, direct] = measure(world, engine, x, bytes);
    double used = watch.elapsed().count();
    world.all_reduce({&used, 1, DType::Float64}, ReduceOp::Max, "tune").wait();
    if (used > budget_s) break;
    // A tie goes to one sync: it is also the one that waits for fewer others.
    const bool one = one_shot <= direct * 1.02;
    table.set({Collective::AllReduce, world.size(), bytes,
               one ? schedule::Algorithm::OneShot : schedule::Algorithm::Direct,
               fmt::format("measured: one-shot {:.2f} us, direct {:.2f} us", one_shot * 1e6,
                           direct * 1e6)});
  }
  if (!table.rows().empty()) {
    table.set({Collective::AllReduce, world.size(), 24, schedule::Algorithm::Inline,
               "fits into the descriptor"});
  }
  return table;
}

Cost measured_cost(const ControlBlock& block, int ranks, Collective collective) {
  const double latency_s = block.figures()[kLatency].load() * ranks / std::max(block.ranks(), 1);
  // Of an all-reduce of S bytes, which reads S and writes S per rank.
  const double bytes_per_s = block.figures()[kBytesPerSecond].load();
  switch (collective) {
    case Collective::Barrier:
      return {latency_s, 0};
    case Collective::AllReduce:
      return {2 * latency_s, bytes_per_s};
    case Collective::ReduceScatter:
      return {2 * latency_s, 2 * bytes_per_s * ranks / (ranks + 1)};  // S read, S / ranks written
    case Collective::AllGather:
    case Collective::Broadcast:
    case Collective::Scatter:
    case Collective::Gather:
    case Collective::AllToAll:
      return {2 * latency_s, bytes_per_s};  // S read and written per rank
    case Collective::Reduce:
      return {2 * latency_s, bytes_per_s};
    case Collective::Send:
    case Collective::Recv:
      return {latency_s, bytes_per_s / 2};  // copied twice
  }
  return {};
}

}  // namespace tutti::comm
