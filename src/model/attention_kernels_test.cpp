// Attention kernels of every instruction set against plain formulas in fp64.
#include "model/attention_kernels.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

namespace tutti::model {
namespace {

constexpr float kUntouched = 12345.0F;
constexpr std::size_t kGap = 5;  // floats between the heads' columns that belong to nobody

struct Sizes {
  std::size_t tokens, size;
};

std::vector<float> normals(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(bits);
  return values;
}

/// Scratch as small as asked for, full of rubbish; address sanitizer sees what lies behind it.
struct Scratch {
  explicit Scratch(std::size_t floats)
      : data(static_cast<float*>(std::aligned_alloc(64, (floats * 4 + 63) / 64 * 64)), std::free) {
    std::fill_n(data.get(), floats, NAN);
  }
  std::unique_ptr<float, void (*)(void*)> data;
};

/// q, k and v (and their gradients) lie beside each other with gaps; so do y and gy.
struct Attention {
  explicit Attention(const Sizes& of, float deviation = 1)
      : sizes(of),
        stride(3 * of.size + 3 * kGap),
        y_stride(of.size + kGap),
        qkv(normals(of.tokens * stride, 1)),
        gy(normals(of.tokens * y_stride, 2)),
        y(of.tokens * y_stride, kUntouched),
        log_sums(of.tokens, kUntouched),
        gqkv(of.tokens * stride, kUntouched) {
    for (float& x : qkv) x *= deviation;
  }

  [[nodiscard]] std::size_t part(std::size_t i) const { return i * (sizes.size + kGap); }
  [[nodiscard]] AttentionHead head() const {
    return {sizes.tokens,         sizes.size,           stride,  qkv.data(),
            qkv.data() + part(1), qkv.data() + part(2), y_stride};
  }
  void forward(const AttentionKernels& kernels) {
    const Scratch scratch(kernels.forward_scratch(sizes.tokens, sizes.size));
    kernels.forward(head(), y.data(), log_sums.data(), scratch.data.get());
  }
  void backward(const AttentionKernels& kernels, bool add_keys = false) {
    const Scratch scratch(kernels.backward_scratch(sizes.tokens, sizes.size));
    kernels.backward(head(),
                     {y.data(), gy.data(), log_sums.data(), gqkv.data(), gqkv.data() + part(1),
                      gqkv.data() + part(2), add_keys},
                     scratch.data.get());
  }
  void run(const AttentionKernels& kernels) {
    forward(kernels);
    backward(kernels);
  }

  Sizes sizes;
  std::size_t stride, y_stride;
  std::vector<float> qkv, gy, y, log_sums, gqkv;
};

/// The definition, in fp64, a query at a time.
struct Oracle {
  explicit Oracle(const Attention& of)
      : y(of.y.size()), log_sums(of.sizes.tokens), gqkv(of.gqkv.size()) {
    const std::size_t size = of.sizes.size, v = of.part(2);
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    for (std::size_t i = 0; i < of.sizes.tokens; ++i) {
      std::vector<double> p(i + 1), dp(i + 1);
      double sum = 0, dot = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < size; ++d)
          score += double{of.qkv[i * of.stride + d]} * of.qkv[j * of.stride + of.part(1) + d];
        p[j] = std::exp(scale * score);
        sum += p[j];
      }
      log_sums[i] = std::log(sum);
      for (std::size_t j = 0; j <= i; ++j) {
        p[j] /= sum;
        for (std::size_t d = 0; d < size; ++d) {
          const double value = of.qkv[j * of.stride + v + d], gy = of.gy[i * of.y_stride + d];
          y[i * of.y_stride + d] += p[j] * value;
          gqkv[j * of.stride + v + d] += p[j] * gy;
          dp[j] += gy * value;
        }
        dot += p[j] * dp[j];
      }
      for (std::size_t j = 0; j <= i; ++j) {
        const double ds = scale * p[j] * (dp[j] - dot);
        for (std::size_t d = 0; d < size; ++d) {
          const std::size_t q = i * of.stride + d, k = j * of.stride + of.part(1) + d;
          gqkv[q] += ds * of.qkv[k];
          gqkv[k] += ds * of.qkv[q];
        }
      }
    }
  }
  std::vector<double> y, log_sums, gqkv;
};

// Root mean square of the error over that of the values, in the columns [begin, end) of rows.
double relative_error(const std::vector<float>& found, const std::vector<double>& expected,
                      std::size_t stride, std::size_t begin, std::size_t end) {
  double error = 0, all = 0;
  for (std::size_t at = 0; at < expected.size(); ++at) {
    if (at % stride < begin || at % stride >= end) continue;
    error += std::pow(found[at] - expected[at], 2);
    all += std::pow(expected[at], 2);
  }
  return std::sqrt(error / std::max(all, 1e-30));
}

std::string name_of(const AttentionKernels& kernels, const Sizes& sizes) {
  return std::string(kernels.name) + ", " + std::to_string(sizes.tokens) + " tokens of " +
         std::to_string(sizes.size);
}

void expect_like_the_oracle(const Attention& found) {
  const Oracle oracle(found);
  const std::size_t size = found.sizes.size;
  EXPECT_LE(relative_error(found.y, oracle.y, found.y_stride, 0, size), 1e-6);
  for (std::size_t i = 0; i < found.sizes.tokens; ++i)
    ASSERT_NEAR(found.log_sums[i], oracle.log_sums[i], 2e-6 * (1 + std::abs(oracle.log_sums[i])));
  // One token has weight 1 whatever q and k are: their gradients are rounding. Those of a few are
  // small differences.
  const double bound = found.sizes.tokens < 16 ? 5e-6 : 1e-6;
  for (std::size_t part = found.sizes.tokens == 1 ? 2 : 0; part < 3; ++part) {
    EXPECT_LE(relative_error(found.gqkv, oracle.gqkv, found.stride, found.part(part),
                             found.part(part) + size),
              bound)
        << "gradient of q, k or v: " << part;
  }
}

// Less than a tile, its edges, blocks and chunks of every set (48, 96, 288) and one more.
TEST(AttentionKernels, AreThatOfTheFormulaAtEveryLengthAndSize) {
  for (const AttentionKernels* kernels : runnable_attention_kernels()) {
    for (const std::size_t tokens : {1, 2, 5, 6, 7, 12, 13, 47, 48, 49, 65, 95, 96, 97, 257}) {
      for (const std::size_t size : {16, 32, 64, 80}) {
        SCOPED_TRACE(name_of(*kernels, {tokens, size}));
        Attention found({tokens, size});
        found.run(*kernels);
        expect_like_the_oracle(found);
      }
    }
    for (const std::size_t tokens : {287, 288, 289, 383, 384, 385, 700}) {
      SCOPED_TRACE(name_of(*kernels, {tokens, 48}));
      Attention found({tokens, 48});
      found.run(*kernels);
      expect_like_the_oracle(found);
    }
  }
}

TEST(AttentionKernels, WriteNothingBesideTheirColumns) {
  for (const AttentionKernels* kernels : runnable_attention_kernels()) {
    Attention found({50, 16});
    found.run(*kernels);
    for (std::size_t at = 0; at < found.gqkv.size(); ++at) {
      if (at % found.stride % (16 + kGap) < 16) continue;
      ASSERT_EQ(found.gqkv[at], kUntouched) << kernels->name << " " << at;
    }
    for (std::size_t at = 0; at < found.y.size(); ++at) {
      if (at % found.y_stride < 16) continue;
      ASSERT_EQ(found.y[at], kUntouched) << kernels->name << " " << at;
    }
  }
}

TEST(AttentionKernels, AddToTheGradientsOfASharedKeyHead) {
  for (const AttentionKernels* kernels : runnable_attention_kernels()) {
    Attention once({97, 48}), twice({97, 48});
    once.run(*kernels);
    twice.run(*kernels);
    twice.backward(*kernels, /*add_keys=*/true);
    for (std::size_t at = 0; at < once.gqkv.size(); ++at) {
      const std::size_t column = at % once.stride;
      const bool of_key = column >= once.part(1) && column % (48 + kGap) < 48;
      ASSERT_EQ(twice.gqkv[at], (of_key ? 2 : 1) * once.gqkv[at]) << kernels->name << " " << at;
    }
  }
}

// Scores of hundreds: e^score alone would overflow, and all weights but one are zero in fp32.
TEST(AttentionKernels, TakeScoresOfHundreds) {
  for (const AttentionKernels* kernels : runnable_attention_kernels()) {
    Attention found({60, 64}, 8);
    found.run(*kernels);
    const Oracle oracle(found);
    EXPECT_LE(relative_error(found.y, oracle.y, found.y_stride, 0, 64), 3e-5) << kernels->name;
    EXPECT_LE(
        relative_error(found.gqkv, oracle.gqkv, found.stride, found.part(2), found.part(2) + 64),
        3e-5)
        << kernels->name;
    for (const float g : found.gqkv) ASSERT_TRUE(std::isfinite(g)) << kernels->name;
  }
}

TEST(AttentionKernels, LookAtNoLaterToken) {
  for (const AttentionKernels* kernels : runnable_attention_kernels()) {
    for (const std::size_t last : {0, 5, 61, 95, 98}) {
      Attention all({100, 32}), changed({100, 32});
      const auto later = static_cast<std::ptrdiff_t>((last + 1) * all.stride);
      for (auto x = changed.qkv.begin() + later; x != changed.qkv.end(); ++x) *x = 50 - *x;
      all.forward(*kernels);
      changed.forward(*kernels);
      for (std::size_t i = 0; i <= last; ++i) {
        for (std::size_t d = 0; d < 32; ++d) {
          const std::size_t at = i * all.y_stride + d;
          ASSERT_EQ(changed.y[at], all.y[at]) << kernels->name << " " << i << " of " << last;
        }
      }
      ASSERT_NE(changed.y[(last + 1) * all.y_stride], all.y[(last + 1) * all.y_stride]);
    }
  }
}

TEST(AttentionKernels, PassOnWhatIsNotFinite) {
  for (const AttentionKernels* kernels : runnable_attention_kernels()) {
    Attention found({70, 16});
    found.forward(*kernels);
    found.gy[20 * found.y_stride] = NAN;
    found.backward(*kernels);
    EXPECT_TRUE(std::isnan(found.gqkv[20 * found.stride])) << kernels->name;
    EXPECT_TRUE(std::isnan(found.gqkv[found.part(2)])) << kernels->name << ": key 0 was seen";
    Attention spoilt({70, 16});
    spoilt.qkv[20 * spoilt.stride] = NAN;
    spoilt.forward(*kernels);
    EXPECT_TRUE(std::isnan(spoilt.y[20 * spoilt.y_stride])) << kernels->name;
    EXPECT_TRUE(std::isnan(spoilt.log_sums[20])) << kernels->name;
  }
}

TEST(AttentionKernels, GiveTheSameBitsWhateverScratchHeld) {
  for (const AttentionKernels* kernels : runnable_attention_kernels()) {
    Attention first({257, 64}), second({257, 64});
    first.run(*kernels);
    std::vector<float> dirty(4'000'000, 1e30F);
    auto* scratch =
        reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(dirty.data()) + 63) / 64 * 64);
    kernels->forward(second.head(), second.y.data(), second.log_sums.data(), scratch);
    kernels->backward(
        second.head(),
        {second.y.data(), second.gy.data(), second.log_sums.data(), second.gqkv.data(),
         second.gqkv.data() + second.part(1), second.gqkv.data() + second.part(2)},
        scratch);
    EXPECT_EQ(first.y, second.y) << kernels->name;
    EXPECT_EQ(first.log_sums, second.log_sums) << kernels->name;
    EXPECT_EQ(first.gqkv, second.gqkv) << kernels->name;
  }
}

}  // namespace
}  // namespace tutti::model
