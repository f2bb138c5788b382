// Compiled with -O3 -ffp-contract=off (see CMakeLists.txt): vectorised, the same bits on every
// instruction set.
#include "model/gelu_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__x86_64__)
#define TUTTI_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TUTTI_CLONES
#endif

namespace tutti::model {
namespace {

// e^y for |y| <= 80 (clamped, so that x times the gate stays clear of slow denormal numbers): y = n
// ln 2 + r, |r| <= ln 2 / 2, a polynomial for e^r, n into the exponent's bits.
[[gnu::always_inline]] inline float exponential(float y) {
  constexpr float kRound =
      12582912.0F;  // 1.5 x 2^23: adding it leaves the nearest integer in the low bits
  y = std::min(std::max(y, -80.0F), 80.0F);
  const float shifted = y * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r =
      (y - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two pieces, so that r is exact
  float p = 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::int32_t exponent =
      (std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}
[[gnu::always_inline]] inline double exponential(double y) { return std::exp(y); }

template <class T>
constexpr T kScale = static_cast<T>(0.7978845608028653559);  // sqrt(2 / pi)
template <class T>
constexpr T kCubic = static_cast<T>(0.044715);

template <class T>
[[gnu::always_inline]] inline T gate(T x) {
  const T u = kScale<T> * (x + kCubic<T> * (x * x * x));
  return T{1} / (T{1} + exponential(T{-2} * u));
}

template <class T>
[[gnu::always_inline]] inline void forward_range(const T* __restrict x, T* __restrict y,
                                                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] * gate(x[i]);
}

template <class T>
[[gnu::always_inline]] inline void backward_range(const T* __restrict x, const T* __restrict gy,
                                                  T* __restrict gx, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T s = gate(x[i]);
    const T du = kScale<T> * (T{1} + T{3} * kCubic<T> * (x[i] * x[i]));
    gx[i] = gy[i] * (s + T{2} * x[i] * s * (T{1} - s) * du);
  }
}

}  // namespace

TUTTI_CLONES void gelu_forward(const float* x, float* y, std::size_t count) {
  forward_range(x, y, count);
}
void gelu_forward(const double* x, double* y, std::size_t count) { forward_range(x, y, count); }
TUTTI_CLONES void gelu_backward(const float* x, const float* gy, float* gx, std::size_t count) {
  backward_range(x, gy, gx, count);
}
void gelu_backward(const double* x, const double* gy, double* gx, std::size_t count) {
  backward_range(x, gy, gx, count);
}

}  // namespace tutti::model
