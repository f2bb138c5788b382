// Compiled with -O3 -ffp-contract=off (see CMakeLists.txt).
#include "parallel/row_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tensor/target_clones.h"

#define TUTTI_INLINE [[gnu::always_inline]] inline

namespace tutti::parallel {
namespace {

constexpr std::size_t kLanes = 32;  // partial sums of a row: two AVX-512 registers, four of AVX2
constexpr std::size_t kSumRows =
    32;  // rows summed apart: the error of a column's sum grows with its square root
constexpr std::size_t kSumColumns = 256;

// e^y for |y| <= 80 (clamped, so that products stay clear of slow denormal numbers): y = n ln 2 +
// r, |r| <= ln 2 / 2, a polynomial for e^r, n into the exponent's bits.
TUTTI_INLINE float exponential(float y) {
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
TUTTI_INLINE double exponential(double y) { return std::exp(y); }

TUTTI_INLINE float wide(float x) { return x; }
TUTTI_INLINE double wide(double x) { return x; }
TUTTI_INLINE float wide(c10::BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.x) << 16);
}

// To bf16: nearest, ties to even; a NaN stays one.
template <class T>
TUTTI_INLINE T narrow(Wide<T> x) {
  return x;
}
template <>
TUTTI_INLINE c10::BFloat16 narrow<c10::BFloat16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t rounded = (bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : nearest;
  return {static_cast<std::uint16_t>(rounded), c10::BFloat16::from_bits()};
}

template <class T>
constexpr T kScale = static_cast<T>(0.7978845608028653559);  // sqrt(2 / pi)
template <class T>
constexpr T kCubic = static_cast<T>(0.044715);

template <class T>
TUTTI_INLINE T gate(T x) {
  const T u = kScale<T> * (x + kCubic<T> * (x * x * x));
  return T{1} / (T{1} + exponential(T{-2} * u));
}

template <class T>
TUTTI_INLINE T gelu_slope(T x) {
  const T s = gate(x);
  const T du = kScale<T> * (T{1} + T{3} * kCubic<T> * (x * x));
  return s + T{2} * x * s * (T{1} - s) * du;
}

template <class T>
TUTTI_INLINE void add_bias_rows(T* __restrict y, const T* __restrict b, std::size_t rows,
                                std::size_t columns) {
  for (std::size_t n = 0; n < rows; ++n, y += columns)
    for (std::size_t c = 0; c < columns; ++c) y[c] = narrow<T>(wide(y[c]) + wide(b[c]));
}

template <class T>
TUTTI_INLINE void add_both_rows(T* __restrict y, const T* __restrict b,
                                const T* __restrict residual, std::size_t rows,
                                std::size_t columns) {
  for (std::size_t n = 0; n < rows; ++n, y += columns, residual += columns)
    for (std::size_t c = 0; c < columns; ++c)
      y[c] = narrow<T>(wide(y[c]) + (wide(b[c]) + wide(residual[c])));
}

template <class T>
TUTTI_INLINE void gelu_rows(const T* __restrict x, const T* __restrict b, T* __restrict y,
                            std::size_t rows, std::size_t columns) {
  for (std::size_t n = 0; n < rows; ++n, x += columns, y += columns) {
    for (std::size_t c = 0; c < columns; ++c) {
      const Wide<T> v = wide(x[c]) + wide(b[c]);
      y[c] = narrow<T>(v * gate(v));
    }
  }
}

// Calls `row(sums, n, from, to)` for every row n of every tile of columns; the tile's sums end in
// db.
template <class T, class Row>
TUTTI_INLINE void sum_columns(T* __restrict db, bool overwrite, const Columns& range, Row row) {
  std::array<T, kSumColumns> total;
  std::array<T, kSumColumns> part;
  for (std::size_t from = range.begin; from < range.end; from += kSumColumns) {
    const std::size_t count = std::min(kSumColumns, range.end - from);
    total.fill(0);
    for (std::size_t first = 0; first < range.rows; first += kSumRows) {
      part.fill(0);
      const std::size_t last = std::min(range.rows, first + kSumRows);
      for (std::size_t n = first; n < last; ++n) row(part.data(), n, from, count);
      for (std::size_t c = 0; c < count; ++c) total[c] += part[c];
    }
    for (std::size_t c = 0; c < count; ++c)
      db[from + c] = overwrite ? total[c] : db[from + c] + total[c];
  }
}

template <class T>
TUTTI_INLINE void gelu_backward_columns(const T* __restrict x, const T* __restrict b,
                                        T* __restrict g, Wide<T>* __restrict db, bool overwrite,
                                        const Columns& range) {
  sum_columns(db, overwrite, range,
              [&](Wide<T>* __restrict sums, std::size_t n, std::size_t from, std::size_t count) {
                const std::size_t at = n * range.columns + from;
                for (std::size_t c = 0; c < count; ++c) {
                  const Wide<T> slope = gelu_slope(wide(x[at + c]) + wide(b[from + c]));
                  const Wide<T> product = wide(g[at + c]) * slope;
                  g[at + c] = narrow<T>(product);
                  sums[c] += product;
                }
              });
}

template <class T>
TUTTI_INLINE void add_columns(const T* __restrict gy, Wide<T>* __restrict db, bool overwrite,
                              const Columns& range) {
  sum_columns(db, overwrite, range,
              [&](Wide<T>* __restrict sums, std::size_t n, std::size_t from, std::size_t count) {
                const T* __restrict g = gy + n * range.columns + from;
                for (std::size_t c = 0; c < count; ++c) sums[c] += wide(g[c]);
              });
}

// Folds lanes pairwise: the same tree whatever the width of a register.
template <class T, class Fold>
TUTTI_INLINE T fold_lanes(std::array<T, kLanes>& lanes, Fold fold) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lanes[i] = fold(lanes[i], lanes[i + half]);
  return lanes[0];
}

template <class T>
TUTTI_INLINE T row_max(const T* x, std::size_t columns) {
  std::array<T, kLanes> lanes;
  lanes.fill(x[0]);
  std::size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes)
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = x[c + i] > lanes[i] ? x[c + i] : lanes[i];
  T largest = fold_lanes(lanes, [](T a, T b) { return a > b ? a : b; });
  for (; c < columns; ++c) largest = x[c] > largest ? x[c] : largest;
  return largest;
}

template <class T>
TUTTI_INLINE T exponential_row(T* __restrict x, std::size_t columns, T largest) {
  std::array<T, kLanes> lanes{};
  std::size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const T e = exponential(x[c + i] - largest);
      x[c + i] = e;
      lanes[i] += e;
    }
  }
  T sum = fold_lanes(lanes, [](T a, T b) { return a + b; });
  for (; c < columns; ++c) {
    x[c] = exponential(x[c] - largest);
    sum += x[c];
  }
  return sum;
}

template <class T>
TUTTI_INLINE void scale_row(T* __restrict x, std::size_t columns, double factor) {
  const T narrow = static_cast<T>(factor);
  for (std::size_t i = 0; i < columns; ++i) x[i] *= narrow;
}

template <class T>
TUTTI_INLINE double cross_entropy_row(T* __restrict x, std::size_t columns, std::size_t target,
                                      double scale, bool gradient) {
  const T largest = row_max(x, columns);
  const T picked = x[target] - largest;
  const T sum = exponential_row(x, columns, largest);
  if (gradient) {
    scale_row(x, columns, scale / static_cast<double>(sum));
    x[target] -= static_cast<T>(scale);
  }
  return std::log(static_cast<double>(sum)) - static_cast<double>(picked);
}

}  // namespace

// target_clones needs a plain function per type; templates get no clones.
#define TUTTI_BIAS_KERNELS(T)                                                                     \
  template <>                                                                                     \
  TUTTI_CLONES void add_bias(T* y, const T* b, std::size_t rows, std::size_t columns) {           \
    add_bias_rows(y, b, rows, columns);                                                           \
  }                                                                                               \
  template <>                                                                                     \
  TUTTI_CLONES void add_bias_and_residual(T* y, const T* b, const T* residual, std::size_t rows,  \
                                          std::size_t columns) {                                  \
    add_both_rows(y, b, residual, rows, columns);                                                 \
  }                                                                                               \
  template <>                                                                                     \
  TUTTI_CLONES void bias_gelu(const T* x, const T* b, T* y, std::size_t rows,                     \
                              std::size_t columns) {                                              \
    gelu_rows(x, b, y, rows, columns);                                                            \
  }                                                                                               \
  template <>                                                                                     \
  TUTTI_CLONES void bias_gelu_backward(const T* x, const T* b, T* g, Wide<T>* db, bool overwrite, \
                                       Columns range) {                                           \
    gelu_backward_columns(x, b, g, db, overwrite, range);                                         \
  }                                                                                               \
  template <>                                                                                     \
  TUTTI_CLONES void column_sums(const T* gy, Wide<T>* db, bool overwrite, Columns range) {        \
    add_columns(gy, db, overwrite, range);                                                        \
  }

TUTTI_BIAS_KERNELS(float)
TUTTI_BIAS_KERNELS(double)
TUTTI_BIAS_KERNELS(c10::BFloat16)

#undef TUTTI_BIAS_KERNELS

#define TUTTI_CROSS_ENTROPY_KERNELS(T)                                                  \
  template <>                                                                           \
  TUTTI_CLONES T largest(const T* x, std::size_t columns) {                             \
    return row_max(x, columns);                                                         \
  }                                                                                     \
  template <>                                                                           \
  TUTTI_CLONES double exponentials(T* x, std::size_t columns, T largest) {              \
    return static_cast<double>(exponential_row(x, columns, largest));                   \
  }                                                                                     \
  template <>                                                                           \
  TUTTI_CLONES void scale(T* x, std::size_t columns, double factor) {                   \
    scale_row(x, columns, factor);                                                      \
  }                                                                                     \
  template <>                                                                           \
  TUTTI_CLONES double cross_entropy(T* logits, std::size_t columns, std::size_t target, \
                                    double scale, bool gradient) {                      \
    return cross_entropy_row(logits, columns, target, scale, gradient);                 \
  }

TUTTI_CROSS_ENTROPY_KERNELS(float)
TUTTI_CROSS_ENTROPY_KERNELS(double)

#undef TUTTI_CROSS_ENTROPY_KERNELS

}  // namespace tutti::parallel
