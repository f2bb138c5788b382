// The matrix peak of one rank: what its threads reach on large products. The denominator of mfu on
// a CPU, for which no data sheet gives one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tensor/torch.h"

namespace tutti::train {

/// What the peak depends on, and where it is remembered.
struct MatrixPeakOptions {
  std::string processor;             // its name
  at::ScalarType type = at::kFloat;  // of the operands
  int ranks = 1;                     // of this host: they share caches, memory and power
  int threads = 1;                   // of each
  std::filesystem::path folder;      // of remembered peaks; empty: none are
};

/// $XDG_CACHE_HOME/tutti or $HOME/.cache/tutti; empty if neither variable is set.
std::filesystem::path cache_folder();

class MatrixPeak {
 public:
  /// The remembered peak, if there is one.
  explicit MatrixPeak(MatrixPeakOptions options);
  /// FLOP/s of one rank. The first call measures (about 0.1 s) if none is remembered.
  [[nodiscard]] double flops();
  /// Measures again and keeps the larger: a peak that was taken on a busy host is too small.
  void measure();
  [[nodiscard]] std::filesystem::path file() const;

 private:
  void remember() const;

  MatrixPeakOptions options_;
  double flops_ = 0;
};

}  // namespace tutti::train
