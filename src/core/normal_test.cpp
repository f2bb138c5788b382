// Normals: equal bits however they are cut and whatever computes them, near the exact value,
// normally distributed.
#include "core/normal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

namespace tutti::core {
namespace {

constexpr PhiloxKey kKey = {11, 22};
constexpr std::uint64_t kStream = 0x123456789abcdef0;

std::vector<float> draw(std::size_t count, std::uint64_t first, std::uint64_t stream = kStream) {
  std::vector<float> out(count);
  fill_normal(std::span<float>(out), first, kKey, stream, 0.0f, 1.0f);
  return out;
}

struct Exact {
  double value;
  double length;  // of the pair
};

/// Box-Muller in fp64 with the C library's functions, from the definition in normal.h.
Exact exact(std::uint64_t element) {
  const std::uint64_t counter = element / 4;
  const PhiloxCounter words =
      philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
              static_cast<std::uint32_t>(kStream), static_cast<std::uint32_t>(kStream >> 32)},
             kKey);
  const std::size_t pair = element % 4 / 2 * 2;
  const double u = (static_cast<double>(words[pair] >> 1) + 0.5) * 0x1p-31;
  const double quarter =
      (words[pair + 1] >> 30) + ((words[pair + 1] & 0x3fffffff) - 0x1p29) * 0x1p-30;
  const double angle = quarter * std::numbers::pi / 2;
  const double length = std::sqrt(-2 * std::log(u));
  return {length * (element % 2 == 0 ? std::cos(angle) : std::sin(angle)), length};
}

TEST(FillNormal, IsTheExactBoxMullerValueToSinglePrecision) {
  for (const std::uint64_t first :
       {std::uint64_t{0}, (std::uint64_t{1} << 34) - 2048, std::uint64_t{1} << 50}) {
    const std::vector<float> z = draw(100'000, first);
    for (std::size_t i = 0; i < z.size(); ++i) {
      const Exact wanted = exact(first + i);
      // Rounding u to fp32 moves it by up to 2^-25 near 1, and a short length by that over the
      // length.
      ASSERT_NEAR(z[i], wanted.value, 2e-6 + 0x1p-24 / wanted.length) << "element " << first + i;
    }
  }
}

TEST(FillNormal, GivesTheSameBitsForEveryCut) {
  const std::vector<float> whole = draw(3000, 0);
  for (const std::size_t piece : {1u, 3u, 7u, 255u, 256u, 257u, 1001u}) {
    for (std::size_t begin = 0; begin < whole.size(); begin += piece) {
      const std::size_t count = std::min<std::size_t>(piece, whole.size() - begin);
      const std::vector<float> part = draw(count, begin);
      ASSERT_TRUE(
          std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)))
          << "pieces of " << piece << " at " << begin;
    }
  }
}

TEST(FillNormal, GivesTheSameBitsOnEveryInstructionSet) {
  normal::Block portable, fastest;
  for (std::uint64_t block = 0; block < 1000; ++block) {
    const std::uint64_t place = block * 0x3ffffffffff;  // the upper counter word too
    normal::fill_portable(portable, place, kKey, kStream);
    normal::fastest()(fastest, place, kKey, kStream);
    ASSERT_EQ(portable, fastest) << "block " << place;
  }
}

TEST(FillNormal, GivesTheseBitsForEver) {
  // Written down once: other values would silently change every run's initial weights.
  const std::vector<float> z = draw(6, 0);
  const std::vector<float> expected = {-0x1.058116p+0f, -0x1.e7dcecp-4f, -0x1.200182p-2f,
                                       -0x1.4bece2p-1f, -0x1.e5cdd6p-2f, -0x1.12eba2p+0f};
  EXPECT_EQ(z, expected);
}

TEST(FillNormal, ScalesAndShiftsAndWidensExactly) {
  const std::vector<float> z = draw(1000, 17);
  std::vector<float> scaled(1000);
  std::vector<double> wide(1000);
  fill_normal(std::span<float>(scaled), 17, kKey, kStream, 0.5f, 0.02f);
  fill_normal(std::span<double>(wide), 17, kKey, kStream, 0.5f, 0.02f);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const float product = 0.02f * z[i];
    const float expected = 0.5f + product;
    ASSERT_EQ(scaled[i], expected);
    ASSERT_EQ(wide[i], static_cast<double>(expected));
  }
}

TEST(FillNormal, HasTheMomentsAndTheTailsOfTheNormalDistribution) {
  constexpr std::size_t kCount = 4'000'000;
  const std::vector<float> z = draw(kCount, 0);
  double sums[5] = {};
  double lag = 0;
  std::size_t beyond_four = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    double power = 1;
    for (double& sum : sums) {
      sum += power;
      power *= z[i];
    }
    if (i > 0) lag += double{z[i]} * z[i - 1];
    beyond_four += std::abs(z[i]) > 4;
  }
  const double sigma =
      1 / std::sqrt(double{kCount});  // standard errors: 1, sqrt(2), sqrt(15), sqrt(96) of it
  EXPECT_NEAR(sums[1] / kCount, 0, 4 * sigma);
  EXPECT_NEAR(sums[2] / kCount, 1, 4 * std::sqrt(2) * sigma);
  EXPECT_NEAR(sums[3] / kCount, 0, 4 * std::sqrt(15) * sigma);
  EXPECT_NEAR(sums[4] / kCount, 3, 4 * std::sqrt(96) * sigma);
  EXPECT_NEAR(lag / kCount, 0, 4 * sigma);
  EXPECT_NEAR(static_cast<double>(beyond_four), 6.334e-5 * kCount,
              4 * std::sqrt(6.334e-5 * kCount));
}

TEST(FillNormal, PassesAKolmogorovSmirnovTest) {
  std::vector<float> z = draw(200'000, 999);
  std::sort(z.begin(), z.end());
  double distance = 0;
  const auto n = static_cast<double>(z.size());
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-z[i] / std::numbers::sqrt2);
    distance = std::max({distance, std::abs(cdf - static_cast<double>(i) / n),
                         std::abs(cdf - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance * std::sqrt(n), 1.95);  // exceeded with probability 0.001
}

TEST(FillNormal, GivesStreamsThatDiffer) {
  const std::vector<float> a = draw(1000, 0, 1), b = draw(1000, 0, 2),
                           high = draw(1000, 0, 1 + (1ull << 32));
  double ab = 0, ah = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    ah += double{a[i]} * high[i];
  }
  EXPECT_LT(std::abs(ab / 1000), 0.13);  // 4 / sqrt(1000)
  EXPECT_LT(std::abs(ah / 1000), 0.13);
}

TEST(FillNormal, TouchesNothingOfAnEmptySpan) {
  fill_normal(std::span<float>(), 5, kKey, kStream, 0, 1);
  fill_normal(std::span<double>(), 5, kKey, kStream, 0, 1);
}

}  // namespace
}  // namespace tutti::core
