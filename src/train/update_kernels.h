// The arithmetic of AdamW and SGD over flat ranges, one pass over memory. No tensors, no fused
// multiply-add: an element's new value does not depend on where a shard begins or on the
// instruction set.
#pragma once

#include <cstddef>

namespace tutti::train {

/// One range of one parameter. `grad_scale` is the clipping factor.
template <class T>
struct UpdateRange {
  T* value;
  const T* grad;
  T* first;   // AdamW: mean; SGD: momentum
  T* second;  // AdamW: mean of squares; SGD: unused
  std::size_t count;
};

/// Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), with bias correction as
/// in PyTorch: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w = w (1 - lr wd) - lr / c1 * m /
/// (sqrt(v) / sqrt(c2) + eps).
struct AdamwRates {
  double lr, beta1, beta2, eps, weight_decay, grad_scale;
  double correction1, correction2;  // 1 - beta^t of step t = 1, 2, ...
};
void adamw(const UpdateRange<float>& range, const AdamwRates& rates);
void adamw(const UpdateRange<double>& range, const AdamwRates& rates);

/// PyTorch's SGD: b = momentum b + (g + wd w); w = w - lr b.
struct SgdRates {
  double lr, momentum, weight_decay, grad_scale;
};
void sgd(const UpdateRange<float>& range, const SgdRates& rates);
void sgd(const UpdateRange<double>& range, const SgdRates& rates);

}  // namespace tutti::train
