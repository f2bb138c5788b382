// Box-Muller over Philox in plain loops that the compiler vectorises (src/CMakeLists.txt gives this
// file -O3), but for Philox on AVX2. Equal bits on every instruction set: only +, -, *, sqrt,
// conversions and integer operations, all of them exactly rounded by IEEE 754, in an order that the
// source fixes (-ffp-contract=off, no -ffast-math).
#include "core/normal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/// Four words of each of a block's counters, word by word.
struct Words {
  alignas(64) std::uint32_t of[4][kCounters];
};

/// The philox counter of a block's lane 0. Its first word is a multiple of kCounters: adding a lane
/// never carries.
TUTTI_INLINE PhiloxCounter first_counter(std::uint64_t block, std::uint64_t stream) {
  const std::uint64_t first = block * kCounters;
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first >> 32),
          static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
}

TUTTI_INLINE void draw(Words& words, PhiloxCounter counter, PhiloxKey key) {
  for (std::size_t lane = 0; lane < kCounters; ++lane) {
    const auto w = philox_rounds(
        {counter[0] + static_cast<std::uint32_t>(lane), counter[1], counter[2], counter[3]}, key);
    for (std::size_t k = 0; k < 4; ++k) words.of[k][lane] = w[k];
  }
}

TUTTI_INLINE void box_muller(Block& out, const Words& words) {
  alignas(64) float normals[4][kCounters];
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    for (std::size_t lane = 0; lane < kCounters; ++lane) {
      const float length = random_length(words.of[pair][lane]);
      const SinCos direction = random_direction(words.of[pair + 1][lane]);
      normals[pair][lane] = length * direction.cos;
      normals[pair + 1][lane] = length * direction.sin;
    }
  }
  for (std::size_t lane = 0; lane < kCounters; ++lane) {
    for (std::size_t k = 0; k < 4; ++k) out[4 * lane + k] = normals[k][lane];
  }
}

#if defined(__x86_64__)

/// Ten rounds for four counters, a word in the lower half of each 64-bit lane. A product needs the
/// lower halves only and fills both, so the upper ones are never cleared: the compiler, which
/// cannot know that, spends two shuffles on each product.
struct Lanes {
  __m256i word[4];
};

__attribute__((target("avx2"))) inline void philox_rounds_avx2(Lanes& c, PhiloxKey key) {
  const __m256i multiply0 = _mm256_set1_epi64x(kPhiloxMultiply0);
  const __m256i multiply1 = _mm256_set1_epi64x(kPhiloxMultiply1);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const __m256i p0 = _mm256_mul_epu32(c.word[0], multiply0);
    const __m256i p1 = _mm256_mul_epu32(c.word[2], multiply1);
    const __m256i key0 = _mm256_set1_epi64x(key[0]), key1 = _mm256_set1_epi64x(key[1]);
    c.word[0] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c.word[1], key0));
    c.word[2] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c.word[3], key1));
    c.word[1] = p1;
    c.word[3] = p0;
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
}

__attribute__((target("avx2"))) inline void draw_avx2(Words& words, PhiloxCounter counter,
                                                      PhiloxKey key) {
  for (std::size_t lane = 0; lane < kCounters; lane += 8) {
    const auto first = static_cast<long long>(counter[0] + lane);
    Lanes even{{_mm256_set_epi64x(first + 6, first + 4, first + 2, first),
                _mm256_set1_epi64x(counter[1]), _mm256_set1_epi64x(counter[2]),
                _mm256_set1_epi64x(counter[3])}};
    Lanes odd = even;
    odd.word[0] = _mm256_add_epi64(even.word[0], _mm256_set1_epi64x(1));
    philox_rounds_avx2(even, key);
    philox_rounds_avx2(odd, key);
    for (std::size_t k = 0; k < 4; ++k) {
      const __m256i both =
          _mm256_blend_epi32(even.word[k], _mm256_slli_epi64(odd.word[k], 32), 0b10101010);
      _mm256_store_si256(reinterpret_cast<__m256i*>(&words.of[k][lane]), both);
    }
  }
}

__attribute__((target("avx2"))) void fill_avx2(Block& out, std::uint64_t block, PhiloxKey key,
                                               std::uint64_t stream) {
  Words words;
  draw_avx2(words, first_counter(block, stream), key);
  box_muller(out, words);
}
#endif

}  // namespace

void fill_portable(Block& out, std::uint64_t block, PhiloxKey key, std::uint64_t stream) {
  Words words;
  draw(words, first_counter(block, stream), key);
  box_muller(out, words);
}

Fill fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return fill_avx2;
#endif
  return fill_portable;
}

}  // namespace tutti::core::normal
