// Every instruction set gives the bits of the plain one; statistics see every bad source.
#include "comm/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "comm/reduce.h"
#include "comm/testing_oracle.h"

namespace tutti::comm {
namespace {

using Bytes = std::vector<std::byte>;

Bytes run(const Kernels& kernels, const std::vector<Bytes>& inputs, DType dtype, Reduce op,
          int in_runs_of = 0) {
  std::vector<const void*> sources;
  for (const Bytes& input : inputs) sources.push_back(input.data());
  Bytes out(inputs[0].size());
  reduce({dtype, op, static_cast<int>(inputs.size()), in_runs_of}, sources, {{out.data()}},
         out.size() / element_bytes(dtype), nullptr, kernels);
  return out;
}

TEST(Kernels, OfAllInstructionSetsGiveTheOraclesBits) {
  for (const Kernels* kernels : runnable_kernels()) {
    for (const DType dtype : testing::kAllTypes) {
      for (const Reduce op : testing::all_reductions(dtype)) {
        for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 17}) {
          for (const std::size_t count : {1, 15, 1024, 2500}) {
            std::vector<Bytes> inputs;
            for (int r = 0; r < ranks; ++r) inputs.push_back(testing::values(dtype, r, count));
            ASSERT_EQ(run(*kernels, inputs, dtype, op) == testing::reduced(inputs, dtype, op), true)
                << kernels->name << " " << name(op.op) << " " << name(dtype) << " " << ranks << " "
                << count;
          }
        }
      }
    }
  }
}

// Two ranks have a loop of their own; its blocks are 256 bytes.
TEST(Kernels, AddTwoSourcesIntoBothOfThemAsTheOracleDoes) {
  for (const DType dtype : testing::kAllTypes) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) {
      if (op == ReduceOp::Avg && !floating(dtype)) continue;
      for (const std::size_t count : {0, 1, 31, 32, 33, 127, 128, 129, 1000, 5000}) {
        const std::vector<Bytes> inputs = {testing::values(dtype, 0, count),
                                           testing::values(dtype, 1, count)};
        const Bytes expected = testing::reduced(inputs, dtype, op);
        for (const Kernels* kernels : runnable_kernels()) {
          std::vector<Bytes> both = inputs;
          const void* sources[] = {both[0].data(), both[1].data()};
          void* outs[] = {both[0].data(), both[1].data()};
          reduce({dtype, op, 2}, sources, outs, count, nullptr, *kernels);
          ASSERT_EQ(both[0] == expected && both[1] == expected, true)
              << kernels->name << " " << name(op) << " " << name(dtype) << " " << count;
        }
      }
    }
  }
}

TEST(Kernels, CopyEveryLengthAndNothingBeyond) {
  Bytes from(1100), to(1100);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251 + 1);
  for (const Kernels* kernels : runnable_kernels()) {
    for (std::size_t bytes = 0; bytes < 1050; ++bytes) {
      std::fill(to.begin(), to.end(), std::byte{0});
      kernels->copy(to.data() + 1, from.data() + 3, bytes);
      ASSERT_EQ(std::memcmp(to.data() + 1, from.data() + 3, bytes), 0) << bytes;
      ASSERT_EQ(to[0], std::byte{0});
      ASSERT_EQ(to[bytes + 1], std::byte{0}) << bytes;
    }
  }
}

TEST(Kernels, AddInRunsWhereTheGroupsOrderSaysSo) {
  for (const DType dtype : testing::kAllTypes) {
    for (const Reduce op : testing::all_reductions(dtype)) {
      for (const int in_runs_of : {2, 3, 4}) {
        std::vector<Bytes> inputs;
        for (int r = 0; r < 12; ++r) inputs.push_back(testing::values(dtype, r, 2500));
        const Bytes expected = testing::reduced(inputs, dtype, op, in_runs_of);
        for (const Kernels* kernels : runnable_kernels()) {
          ASSERT_EQ(run(*kernels, inputs, dtype, op, in_runs_of) == expected, true)
              << kernels->name << " " << name(op.op) << " " << name(dtype) << " " << in_runs_of;
        }
      }
    }
  }
}

TEST(Kernels, RoundEveryFloatToTheNearestBf16) {
  std::vector<float> floats;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {  // each bf16 with tails around the tie
    for (const std::uint32_t tail : {0x0U, 0x1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      floats.push_back(std::bit_cast<float>(high << 16 | tail));
    }
  }
  // Sums of two bf16 that are such floats are rare; feed the tail through a pair of halves.
  for (const Kernels* kernels : runnable_kernels()) {
    std::size_t checked = 0;
    for (std::size_t i = 0; i + 1024 <= floats.size(); i += 1024) {
      Bytes a(2048), b(2048), out(2048);
      for (std::size_t k = 0; k < 1024; ++k) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(floats[i + k]);
        const auto high = static_cast<std::uint16_t>(bits >> 16);
        const float rest = floats[i + k] - testing::bf16_value(high);
        const std::uint16_t low = testing::nearest_bf16(rest);
        std::memcpy(&a[2 * k], &high, 2);
        std::memcpy(&b[2 * k], &low, 2);
      }
      const void* sources[] = {a.data(), b.data()};
      kernels->of(DType::BFloat16).combine(ReduceOp::Sum, sources, 2, out.data(), 1024, {});
      for (std::size_t k = 0; k < 1024; ++k) {
        std::uint16_t x = 0, y = 0, got = 0;
        std::memcpy(&x, &a[2 * k], 2);
        std::memcpy(&y, &b[2 * k], 2);
        std::memcpy(&got, &out[2 * k], 2);
        const float sum = testing::bf16_value(x) + testing::bf16_value(y);
        ASSERT_EQ(got, testing::nearest_bf16(sum)) << kernels->name << " " << sum;
        ++checked;
      }
    }
    EXPECT_GT(checked, 300000U);
  }
}

// 16 factors of some thousands overflow to infinity, and one that is 0 makes that a negative NaN on
// x86. Sign and payload of NaNs that come in must not show either.
TEST(Kernels, GiveHalfTypesOneNaNWhereverItComesFrom) {
  constexpr std::uint16_t kOne[] = {0x3f80, 0x3c00}, kInfinity[] = {0x7f80, 0x7c00},
                          kNaN[] = {0x7fc0, 0x7e00};
  constexpr DType kHalves[] = {DType::BFloat16, DType::Float16};
  for (const Kernels* kernels : runnable_kernels()) {
    for (const int t : {0, 1}) {
      const TypeKernels& type = kernels->of(kHalves[t]);
      std::array<std::uint16_t, 19> a, b, out;  // longer than a vector, with a tail
      const void* sources[] = {a.data(), b.data()};
      a.fill(kInfinity[t]);
      b.fill(0);
      type.combine(ReduceOp::Product, sources, 2, out.data(), out.size(), {});
      EXPECT_THAT(out, ::testing::Each(kNaN[t])) << kernels->name << " " << name(kHalves[t]);
      a.fill(kOne[t]);
      b.fill(kInfinity[t] | 0x8001);  // a negative signalling NaN
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min}) {
        type.combine(op, sources, 2, out.data(), out.size(), {});
        EXPECT_THAT(out, ::testing::Each(kNaN[t])) << kernels->name << " " << name(op);
      }
      std::array<float, 19> wide;
      type.widen(b.data(), wide.data(), wide.size());  // as schedules do
      type.round(wide.data(), out.data(), out.size());
      EXPECT_THAT(out, ::testing::Each(kNaN[t])) << kernels->name << " " << name(kHalves[t]);
    }
  }
}

TEST(Kernels, LetNaNWinInMaxAndMinOnEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Kernels* kernels : runnable_kernels()) {
    for (const ReduceOp op : {ReduceOp::Max, ReduceOp::Min}) {
      const float a[] = {nan, 1, nan, 2}, b[] = {1, nan, nan, 3};
      float out[4];
      const void* sources[] = {a, b};
      kernels->of(DType::Float32).combine(op, sources, 2, out, 4, {});
      EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(out[2]));
      EXPECT_EQ(out[3], op == ReduceOp::Max ? 3.0F : 2.0F);
    }
  }
}

TEST(Kernels, MayWriteOverEachOfManySources) {
  for (const int ranks : {2, 4, 5, 9}) {
    std::vector<Bytes> inputs;
    for (int r = 0; r < ranks; ++r) inputs.push_back(testing::values(DType::Float32, r, 3000));
    const Bytes expected = testing::reduced(inputs, DType::Float32, ReduceOp::Sum);
    std::vector<const void*> sources;
    std::vector<void*> destinations;
    for (Bytes& input : inputs) {
      sources.push_back(input.data());
      destinations.push_back(input.data());
    }
    reduce({DType::Float32, ReduceOp::Sum, ranks}, sources, destinations, 3000, nullptr);
    for (const Bytes& input : inputs) EXPECT_EQ(input == expected, true) << ranks;
  }
}

TEST(BlockSums, DoNotDependOnPiecesAndBlameTheSource) {
  constexpr std::size_t kCount = 20000;
  const std::vector<std::int64_t> starts = {0, 5, 4101, 12293};
  std::vector<std::vector<double>> squares;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, kCount}) {
    for (const Kernels* kernels : runnable_kernels()) {
      std::vector<Bytes> inputs;
      for (int r = 0; r < 3; ++r) inputs.push_back(testing::values(DType::Float32, r, kCount));
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(&inputs[1][4 * 12292], &nan, 4);  // last element of the third block
      ReduceStats stats;
      stats.block_starts = starts;
      BlockSums sums(stats, 0, kCount, kCount);
      for (std::size_t at = 0; at < kCount; at += piece) {
        const std::size_t n = std::min(piece, kCount - at);
        const void* sources[] = {&inputs[0][4 * at], &inputs[1][4 * at], &inputs[2][4 * at]};
        void* destinations[] = {&inputs[0][4 * at], &inputs[1][4 * at]};  // over its own sources
        reduce({DType::Float32, ReduceOp::Sum, 3}, sources, destinations, n, &sums, *kernels);
      }
      ASSERT_EQ(stats.squares.size(), 4U);
      EXPECT_EQ(stats.not_finite, (std::vector<std::uint64_t>{0, 0, 2, 0}));
      EXPECT_TRUE(std::isnan(stats.squares[2]));
      stats.squares[2] = 0;
      squares.push_back(stats.squares);
    }
  }
  for (const auto& other : squares) EXPECT_EQ(other, squares.front());
}

}  // namespace
}  // namespace tutti::comm
