// Whether bf16 pays on this machine: `[run] precision = "auto"` measures once.
#pragma once

#include <string>

namespace tutti::train {

/// What a run computes in, and why.
struct Precision {
  std::string type;  // fp32 | fp64 | bf16
  /// FLOP/s of a large product of the slowest rank, where they were measured; else 0.
  double fp32_flops = 0, bf16_flops = 0;
  friend bool operator==(const Precision&, const Precision&) = default;
};

/// bf16 where its products are at least 1.1 times as fast: below that its roundings buy nothing.
[[nodiscard]] Precision choose_precision(double fp32_flops, double bf16_flops);

/// "fp32 (measured: products of bf16 at 66.9 GFLOP/s, of fp32 at 89.8)".
[[nodiscard]] std::string describe(const Precision& precision);

}  // namespace tutti::train
