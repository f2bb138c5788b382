// The choice and its reason.
#include "train/precision.h"

#include <fmt/format.h>

namespace tutti::train {

Precision choose_precision(double fp32_flops, double bf16_flops) {
  constexpr double kWorthwhile = 1.1;
  return {.type = bf16_flops >= kWorthwhile * fp32_flops ? "bf16" : "fp32",
          .fp32_flops = fp32_flops,
          .bf16_flops = bf16_flops};
}

std::string describe(const Precision& precision) {
  std::string text = precision.type;
  if (text == "bf16") text += " with fp32 masters and sums";
  if (precision.fp32_flops > 0) {
    text += fmt::format(" (measured: products of bf16 at {:.1f} GFLOP/s, of fp32 at {:.1f})",
                        precision.bf16_flops / 1e9, precision.fp32_flops / 1e9);
  }
  return text;
}

}  // namespace tutti::train
