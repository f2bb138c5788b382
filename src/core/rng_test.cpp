// Philox against published answers; keys, uniform numbers and permutations.
#include "core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

namespace tutti::core {
namespace {

TEST(Philox, GivesRandom123sKnownAnswers) {
  // kat_vectors of Random123: philox4x32, 10 rounds; the third counter and key are digits of pi.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxKey, DiffersForEverySeedAndPurpose) {
  std::set<PhiloxKey> keys;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    for (const char* purpose : {"init", "data", "dropout", ""})
      keys.insert(philox_key(seed, purpose));
  }
  EXPECT_EQ(keys.size(), 4000u);
  EXPECT_EQ(philox_key(7, "data"), philox_key(7, "data"));
}

TEST(Uniform, StaysInsideAndFillsTheUnitInterval) {
  constexpr int kBins = 64, kDraws = 64 * 1000;
  std::vector<int> bins(kBins);
  bool uses_low_bits = false;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const double u = uniform({i, 0, 0, 0}, {1, 2});
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<std::size_t>(u * kBins)];
    const double scaled = u * 0x1p52;
    uses_low_bits |= scaled != static_cast<double>(static_cast<std::uint64_t>(scaled));
  }
  double chi_square = 0;
  for (const int count : bins) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 120.0);  // 63 degrees of freedom: above it with probability 2e-5
  EXPECT_TRUE(uses_low_bits) << "fewer than 53 bits";
}

TEST(Permute, IsABijectionOfEverySize) {
  for (std::uint64_t size = 1; size <= 1000; ++size) {
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t place = permute(i, size, {static_cast<std::uint32_t>(size), 9});
      ASSERT_LT(place, size);
      ASSERT_FALSE(seen[place]) << "place " << place << " of " << size << " twice";
      seen[place] = true;
    }
  }
}

TEST(Permute, IsABijectionOfLargeSizes) {
  for (const std::uint64_t size :
       {65536u, 65537u, 262145u}) {  // a power of four; one more of two kinds
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) seen[permute(i, size, {5, 6})] = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<std::ptrdiff_t>(size));
  }
}

TEST(Permute, ReachesBeyondThirtyTwoBits) {
  const std::uint64_t size = (std::uint64_t{1} << 40) + 12345;
  std::set<std::uint64_t> places;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const std::uint64_t place = permute(size - 1 - i, size, {5, 6});
    ASSERT_LT(place, size);
    places.insert(place);
  }
  EXPECT_EQ(places.size(), 10000u);
  EXPECT_GT(*places.rbegin(), size / 2);
  EXPECT_LT(*places.begin(), size / 2);
}

TEST(Permute, GivesEveryKeyItsOwnOrder) {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint32_t key = 0; key < 100; ++key) {
    for (const PhiloxKey k : {PhiloxKey{key, 0}, PhiloxKey{0, key + 1}}) {
      std::vector<std::uint64_t> order(50);
      for (std::uint64_t i = 0; i < 50; ++i) order[i] = permute(i, 50, k);
      orders.insert(order);
    }
  }
  EXPECT_EQ(orders.size(), 200u);
}

TEST(Permute, LeavesNoTraceOfTheOldOrder) {
  // Rank correlation of place and sample in an epoch: 0 +- 1 / sqrt(n).
  constexpr std::uint64_t kSize = 10000;
  double sum = 0;
  for (std::uint64_t i = 0; i < kSize; ++i) {
    const double centre = (kSize - 1) / 2.0;
    sum += (static_cast<double>(i) - centre) *
           (static_cast<double>(permute(i, kSize, {3, 4})) - centre);
  }
  const double variance = (double{kSize} * kSize - 1) / 12;
  EXPECT_LT(std::abs(sum / variance / kSize), 0.05);
}

TEST(Permute, RefusesAPlaceOutsideTheEpoch) {
  EXPECT_THROW(permute(5, 5, {1, 2}), std::invalid_argument);
  EXPECT_THROW(permute(0, 0, {1, 2}), std::invalid_argument);
}

}  // namespace
}  // namespace tutti::core
