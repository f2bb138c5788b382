// The global gradient norm and what clipping makes of it. Pure.
#pragma once

#include <span>

namespace tutti::train {

/// Square root of the sum, added in the given order (parameter blocks in model order): the same
/// bits for any layout.
double grad_norm(std::span<const double> block_squares);

/// The factor for all gradients: min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1
/// if clip is 0.
double clip_scale(double norm, double clip);

}  // namespace tutti::train
