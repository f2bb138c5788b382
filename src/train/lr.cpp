// Learning-rate schedules.
#include "train/lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tutti::train {

double lr_at(const OptimOptions& optim, int steps, int step) {
  if (step < optim.warmup_steps) return optim.lr * (step + 1) / optim.warmup_steps;
  if (optim.schedule == "constant") return optim.lr;
  int begin = optim.warmup_steps;  // of the decay
  if (optim.schedule == "wsd") {
    const int decay = optim.decay_steps > 0 ? optim.decay_steps : std::max(1, steps / 5);
    begin = std::max(begin, steps - decay);
  }
  const double done =
      std::clamp(static_cast<double>(step - begin) / std::max(1, steps - begin), 0.0, 1.0);
  const double left =
      optim.schedule == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return optim.min_lr + (optim.lr - optim.min_lr) * left;
}

}  // namespace tutti::train
