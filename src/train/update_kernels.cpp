// Compiled with -O3 -ffp-contract=off (see CMakeLists.txt): vectorised, and the same bits in vector
// body and tail.
#include "train/update_kernels.h"

#include <cmath>

#include "tensor/target_clones.h"

namespace tutti::train {
namespace {

template <class T>
[[gnu::always_inline]] inline void adamw_range(T* __restrict w, const T* __restrict g,
                                               T* __restrict m, T* __restrict v, std::size_t count,
                                               const AdamwRates& rates) {
  const T beta1 = static_cast<T>(rates.beta1);
  const T beta2 = static_cast<T>(rates.beta2);
  const T rest1 = static_cast<T>(1 - rates.beta1);
  const T rest2 = static_cast<T>(1 - rates.beta2);
  const T keep = static_cast<T>(1 - rates.lr * rates.weight_decay);
  const T step = static_cast<T>(rates.lr / rates.correction1);
  const T root = static_cast<T>(1 / std::sqrt(rates.correction2));
  const T eps = static_cast<T>(rates.eps);
  const T scale = static_cast<T>(rates.grad_scale);
  for (std::size_t i = 0; i < count; ++i) {
    const T grad = g[i] * scale;
    m[i] = beta1 * m[i] + rest1 * grad;
    v[i] = beta2 * v[i] + rest2 * (grad * grad);
    w[i] = w[i] * keep - step * (m[i] / (std::sqrt(v[i]) * root + eps));
  }
}

template <class T>
[[gnu::always_inline]] inline void sgd_range(T* __restrict w, const T* __restrict g,
                                             T* __restrict b, std::size_t count,
                                             const SgdRates& rates) {
  const T lr = static_cast<T>(rates.lr);
  const T momentum = static_cast<T>(rates.momentum);
  const T decay = static_cast<T>(rates.weight_decay);
  const T scale = static_cast<T>(rates.grad_scale);
  for (std::size_t i = 0; i < count; ++i) {
    b[i] = momentum * b[i] + (g[i] * scale + decay * w[i]);
    w[i] = w[i] - lr * b[i];
  }
}

}  // namespace

TUTTI_CLONES void adamw(const UpdateRange<float>& range, const AdamwRates& rates) {
  adamw_range(range.value, range.grad, range.first, range.second, range.count, rates);
}
TUTTI_CLONES void adamw(const UpdateRange<double>& range, const AdamwRates& rates) {
  adamw_range(range.value, range.grad, range.first, range.second, range.count, rates);
}
TUTTI_CLONES void sgd(const UpdateRange<float>& range, const SgdRates& rates) {
  sgd_range(range.value, range.grad, range.first, range.count, rates);
}
TUTTI_CLONES void sgd(const UpdateRange<double>& range, const SgdRates& rates) {
  sgd_range(range.value, range.grad, range.first, range.count, rates);
}

}  // namespace tutti::train
