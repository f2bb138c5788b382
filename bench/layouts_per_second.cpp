// Layouts whose memory spec predicts per second on one core: the planner's inner loop. Returns 1
// below the 100,000 that the planner counts on.
#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "spec/memory.h"
#include "spec/model_spec.h"

namespace {

using tutti::spec::MemoryLayout;
using tutti::spec::Recompute;

// What a search over 512 ranks of a 175B model walks through.
std::vector<MemoryLayout> layouts() {
  std::vector<MemoryLayout> all;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    for (const std::int64_t pp : {1, 2, 4, 8, 16}) {
      for (const std::int64_t micro : {1, 2, 4}) {
        for (const int zero : {0, 1, 2, 3}) {
          for (const Recompute recompute : {Recompute::None, Recompute::Core, Recompute::Full}) {
            for (const std::int64_t chunks : {1, 2}) {
              if (pp == 1 && chunks > 1) continue;
              all.push_back({.tp = tp,
                             .pp = pp,
                             .dp = 512 / tp / pp,
                             .zero = zero,
                             .sequence_parallel = tp > 1,
                             .schedule = chunks > 1 ? "interleaved" : "1f1b",
                             .chunks = chunks,
                             .microbatches = 64,
                             .micro = micro,
                             .sequence = 2048,
                             .recompute = recompute});
            }
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

int main() {
  std::vector<tutti::core::Problem> problems;
  tutti::spec::ModelOptions options;
  options.preset = "gpt3-175b";
  const auto graph = tutti::spec::graph(tutti::spec::resolve(options, 0, problems));
  const std::vector<MemoryLayout> all = layouts();
  const tutti::spec::Runtime runtime;
  constexpr int kRounds = 100;
  double sum = 0;  // proof of work
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
    for (const MemoryLayout& layout : all) {
      sum += tutti::spec::peak_memory(graph, layout, runtime).total().real();
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double rate = static_cast<double>(kRounds * all.size()) / took.count();
  fmt::print(
      "{:.0f} layouts/s on one core ({} layouts of 175B on 512 ranks, pp up to 16; mean {:.3f} "
      "GB)\n",
      rate, all.size(), sum / kRounds / static_cast<double>(all.size()) / 1e9);
  return rate >= 100'000 ? 0 : 1;
}
