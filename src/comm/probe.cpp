// Latency from barriers, bandwidth from direct all-reduces; smaller groups scale from the world's.
#include "comm/probe.h"

#include <algorithm>
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
      return {2 * latency_s, bytes_per_s};  // S read and written per rank
    case Collective::Send:
    case Collective::Recv:
      return {latency_s, bytes_per_s / 2};  // copied twice
  }
  return {};
}

}  // namespace tutti::comm
