// The learning rate of each step. Pure.
#pragma once

#include "train/options.h"

namespace tutti::train {

/// The rate of the update after step `step` (0 <= step < steps). Rises linearly over warmup_steps,
/// then
///   cosine    half a cosine from lr to min_lr at the end
///   linear    a line from lr to min_lr
///   wsd       lr, then a line to min_lr over the last decay_steps (0: a fifth of all steps)
///   constant  lr
double lr_at(const OptimOptions& optim, int steps, int step);

}  // namespace tutti::train
