// Box-Muller over Philox in plain loops that the compiler vectorises (src/CMakeLists.txt gives this
// file -O3). Equal bits on every instruction set: only +, -, *, sqrt, conversions and integer
// operations, all of them exactly rounded by IEEE 754, in an order that the source fixes
// (-ffp-contract=off, no -ffast-math).
#include "core/normal.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/philox.h"

namespace tutti::core::normal {
namespace {

#define TUTTI_INLINE \
  inline __attribute__((always_inline))  // into each instruction set's copy of the loop

/// ln(x) for 2^-32 <= x <= 1, absolute error below 2e-7 * max(1, |ln x|).
/// x = 2^e * m with m in [sqrt(1/2), sqrt(2)); ln(m) = 2 atanh(s) with s = (m - 1) / (m + 1), a
/// series in s^2.
TUTTI_INLINE float log_of(float x) {
  constexpr std::uint32_t kSqrtHalf = 0x3f3504f3;
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(x) - kSqrtHalf;
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float m = std::bit_cast<float>((shifted & 0x007fffff) + kSqrtHalf);
  const float s = (m - 1.0f) / (m + 1.0f);
  const float s2 = s * s;
  const float series = s2 * (0.66666667f + s2 * (0.4f + s2 * (0.28571430f + s2 * 0.22222222f)));
  return exponent * std::numbers::ln2_v<float> + (2.0f * s + s * series);
}

struct SinCos {
  float sin, cos;
};

/// Sine and cosine of a random angle, uniform on the circle: two bits choose the quadrant, 30 the
/// place in it, x in [-pi/4, pi/4). Taylor up to x^9 and x^10: absolute error below 1e-7.
TUTTI_INLINE SinCos random_direction(std::uint32_t word) {
  constexpr float kStep = std::numbers::pi_v<float> * 0x1p-31f;  // (pi / 2) / 2^30
  const auto place = static_cast<std::int32_t>(word & 0x3fffffff) - 0x20000000;
  const float x = static_cast<float>(place) * kStep;
  const float x2 = x * x;
  const float sin =
      x +
      x * x2 * (-1.6666667e-1f + x2 * (8.3333333e-3f + x2 * (-1.9841270e-4f + x2 * 2.7557319e-6f)));
  const float cos =
      1.0f +
      x2 * (-0.5f + x2 * (4.1666667e-2f +
                          x2 * (-1.3888889e-3f + x2 * (2.4801587e-5f + x2 * -2.7557319e-7f))));
  // A turn by q quarters: swap for odd q, then change signs. In bits, without branches.
  const std::uint32_t s = std::bit_cast<std::uint32_t>(sin);
  const std::uint32_t c = std::bit_cast<std::uint32_t>(cos);
  const std::uint32_t odd = 0u - (word >> 30 & 1u);
  const std::uint32_t half_turn = word & 0x80000000u;
  const std::uint32_t new_sin = ((odd & c) | (~odd & s)) ^ half_turn;
  const std::uint32_t new_cos = ((odd & s) | (~odd & c)) ^ half_turn ^ (odd & 0x80000000u);
  return {std::bit_cast<float>(new_sin), std::bit_cast<float>(new_cos)};
}

/// The length of a random pair: sqrt(-2 ln u) with u in [2^-32, 1], so up to 6.66.
TUTTI_INLINE float random_length(std::uint32_t word) {
  const float u = (static_cast<float>(static_cast<std::int32_t>(word >> 1)) + 0.5f) * 0x1p-31f;
  return std::sqrt(-2.0f * log_of(u));
}

TUTTI_INLINE void fill(Block& out, std::uint64_t block, PhiloxKey key, std::uint64_t stream) {
  const std::uint64_t first =
      block * kCounters;  // a multiple of kCounters: adding a lane never carries
  const auto low = static_cast<std::uint32_t>(first);
  const auto high = static_cast<std::uint32_t>(first >> 32);
  const auto stream_low = static_cast<std::uint32_t>(stream);
  const auto stream_high = static_cast<std::uint32_t>(stream >> 32);
  alignas(64) std::uint32_t words[4][kCounters];
  for (std::size_t lane = 0; lane < kCounters; ++lane) {
    const auto w =
        philox_rounds({low + static_cast<std::uint32_t>(lane), high, stream_low, stream_high}, key);
    for (int k = 0; k < 4; ++k) words[k][lane] = w[static_cast<std::size_t>(k)];
  }
  alignas(64) float normals[4][kCounters];
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    for (std::size_t lane = 0; lane < kCounters; ++lane) {
      const float length = random_length(words[pair][lane]);
      const SinCos direction = random_direction(words[pair + 1][lane]);
      normals[pair][lane] = length * direction.cos;
      normals[pair + 1][lane] = length * direction.sin;
    }
  }
  for (std::size_t lane = 0; lane < kCounters; ++lane) {
    for (std::size_t k = 0; k < 4; ++k) out[4 * lane + k] = normals[k][lane];
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void fill_avx2(Block& out, std::uint64_t block, PhiloxKey key,
                                               std::uint64_t stream) {
  fill(out, block, key, stream);
}
#endif

}  // namespace

void fill_portable(Block& out, std::uint64_t block, PhiloxKey key, std::uint64_t stream) {
  fill(out, block, key, stream);
}

Fill fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return fill_avx2;
#endif
  return fill_portable;
}

}  // namespace tutti::core::normal
