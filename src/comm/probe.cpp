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

constexpr int kTries = 15;

// Median seconds of one all-reduce by an algorithm, the slowest rank's.
double measure(Communicator& world, Engine& engine, float* x, std::size_t bytes,
               const char* algorithm) {
  CommOptions options = engine.options();
  const CommOptions before = options;
  options.algorithm = algorithm;
  engine.set_options(options);
  std::array<double, kTries> times = {};
  for (double& seconds : times) {
    std::memset(x, 0, bytes);
    world.barrier("tune").wait();
    const core::Stopwatch watch;
    world.all_reduce({x, bytes / sizeof(float)}, ReduceOp::Sum, "tune").wait();
    seconds = watch.elapsed().count();
  }
  std::nth_element(times.begin(), times.begin() + kTries / 2, times.end());
  engine.set_options(before);
  double slowest = times[kTries / 2];
  world.all_reduce({&slowest, 1, DType::Float64}, ReduceOp::Max, "tune").wait();
  return slowest;
}

}  // namespace

ChoiceTable tune(Communicator& world, Engine& engine, double budget_s) {
  ChoiceTable table;
  const core::Stopwatch watch;
  const auto memory = world.allocate(ControlBlock::kOneShotBytes);
  auto* x = reinterpret_cast<float*>(memory.get());
  for (std::size_t bytes = 256; bytes <= ControlBlock::kOneShotBytes; bytes *= 2) {
    const double one_shot = measure(world, engine, x, bytes, "one-shot");
    const double direct = measure(world, engine, x, bytes, "direct");
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
