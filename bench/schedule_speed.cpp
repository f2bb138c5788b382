// Generates and proves schedules against the clock: the largest shapes that planner and users ask
// for. Each line: what, best of five in milliseconds, the bar. Exit status 1 if a proof fails or a
// bar is missed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "schedule/collective_verify.h"
#include "schedule/pipeline.h"
#include "schedule/pipeline_verify.h"

namespace {

using namespace tutti::schedule;

bool pipeline(const std::string& name, int stages, int microbatches, int chunks) {
  return verify(make_pipeline({name, stages, microbatches, chunks})).ok();
}

bool all_reduce(Algorithm algorithm, int ranks) {
  const auto elements = static_cast<std::size_t>(ranks) * 1024;
  return verify(generate({.algorithm = algorithm, .ranks = ranks, .elements = elements})).ok();
}

struct Case {
  std::string name;
  double bar_ms;  // 0: printed only
  std::function<bool()> run;
};

/// Milliseconds of the fastest of five runs; negative if a proof fails.
double best_of_five(const Case& what) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    if (!what.run()) return -1;
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count());
  }
  return best;
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"interleaved p = 64, m = 1024, v = 8", 1000,
       [] { return pipeline("interleaved", 64, 1024, 8); }},
      {"zb-auto p = 64, m = 1024", 1000, [] { return pipeline("zb-auto", 64, 1024, 0); }},
      {"ring all-reduce of 4096 ranks", 1000, [] { return all_reduce(Algorithm::Ring, 4096); }},
      {"direct all-reduce of 1024 ranks", 0, [] { return all_reduce(Algorithm::Direct, 1024); }}};
  for (const std::string& name : pipeline_names()) {
    all.push_back({name + " p = 16, m = 128", 10, [name] { return pipeline(name, 16, 128, 0); }});
  }
  return all;
}

}  // namespace

int main() {
  bool good = true;
  fmt::print("{:<40} {:>10} {:>10}\n", "generate and verify", "ms", "bar");
  for (const Case& what : cases()) {
    const double taken = best_of_five(what);
    const bool met = taken >= 0 && (what.bar_ms == 0 || taken <= what.bar_ms);
    fmt::print("{:<40} {:>10.2f} {:>10}{}\n", what.name, taken,
               what.bar_ms == 0 ? "" : fmt::format("{:g}", what.bar_ms), met ? "" : "  MISSED");
    good = good && met;
  }
  return good ? 0 : 1;
}
