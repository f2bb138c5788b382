// What this host's matrix product reaches: fp32 [512 x 768] x [768 x 3072], one thread, with the
// settings that a rank has (the caching allocator, oneMKL's kernels for this processor). Started
// once per core at the same time it is the peak that bench/train_vs_torch.py speaks of: both cores
// busy, hot operands. Prints GFLOP/s of the best tenth of a second.
//
//   build/bench/matrix_peak [SECONDS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/clock.h"
#include "tensor/runtime.h"
#include "tensor/torch.h"

int main(int argc, char** argv) {
  using tutti::core::Stopwatch;
  constexpr std::int64_t kRows = 512, kInner = 768, kColumns = 3072;
  constexpr double kFlops = 2.0 * kRows * kInner * kColumns;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.5;
  tutti::tensor::set_up_runtime(1);
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kRows, kInner}), b = at::full({kInner, kColumns}, 0.5);
  at::Tensor c = at::empty({kRows, kColumns});
  at::mm_out(c, a, b);
  if (c.min().item<float>() != kInner / 2 || c.max().item<float>() != kInner / 2) {
    fmt::print(stderr, "matrix_peak: the product is wrong\n");
    return 1;
  }
  double best = 0;
  const Stopwatch all;
  while (all.elapsed().count() < seconds) {
    const Stopwatch watch;
    int products = 0;
    while (watch.elapsed().count() < 0.1) {
      at::mm_out(c, a, b);
      ++products;
    }
    best = std::max(best, products * kFlops / watch.elapsed().count());
  }
  fmt::print("{:.1f}\n", best * 1e-9);
  return 0;
}
