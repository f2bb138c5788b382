// Row kernels against plain formulas in fp64, at the edges of lanes and tiles.
#include "parallel/row_kernels.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tutti::parallel {
namespace {

std::vector<float> normals(std::size_t count, float deviation = 1) {
  std::mt19937 bits(7);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(bits);
  return values;
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(RowKernels, GeluIsRightFromDeepNegativeToLargePositive) {
  std::vector<float> x, y(60'003);
  for (std::size_t i = 0; i < y.size(); ++i) x.push_back(-30 + 0.001F * static_cast<float>(i));
  const std::vector<float> zero(y.size(), 0.0F);
  bias_gelu(x.data(), zero.data(), y.data(), 1, y.size());
  for (std::size_t i = 0; i < y.size(); ++i)
    ASSERT_NEAR(y[i], gelu(x[i]), 4e-7 * std::max(1e-3, std::abs(double{x[i]}))) << x[i];
}

TEST(RowKernels, GeluTakesInfinityAndKeepsNotANumber) {
  const std::vector<float> x = {INFINITY, 1e30F, 100.0F, NAN}, zero(4, 0.0F);
  std::vector<float> y(4);
  bias_gelu(x.data(), zero.data(), y.data(), 1, 4);
  EXPECT_TRUE(std::isinf(y[0]));
  EXPECT_EQ(y[2], 100.0F);
  EXPECT_TRUE(std::isnan(y[3])) << "a diverging run must be seen";
}

std::vector<c10::BFloat16> halves(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
std::vector<float> widened(const std::vector<c10::BFloat16>& values) {
  return {values.begin(), values.end()};
}

// 70 rows of 300: more than one tile of a column's sum, the last one short.
TEST(RowKernels, Bf16IsComputedInFp32AndRoundedOnce) {
  const std::size_t rows = 70, columns = 300;
  const Columns all{rows, columns, 0, columns};
  const auto x = halves(normals(rows * columns)), b = halves(normals(columns)), r = x;
  const auto wide_x = widened(x), wide_b = widened(b);

  auto y = x;
  auto wide_y = wide_x;
  add_bias(y.data(), b.data(), rows, columns);
  add_bias(wide_y.data(), wide_b.data(), rows, columns);
  EXPECT_EQ(widened(y), widened(halves(wide_y)));
  y = x, wide_y = wide_x;
  add_bias_and_residual(y.data(), b.data(), r.data(), rows, columns);
  add_bias_and_residual(wide_y.data(), wide_b.data(), wide_x.data(), rows, columns);
  EXPECT_EQ(widened(y), widened(halves(wide_y)));
  bias_gelu(x.data(), b.data(), y.data(), rows, columns);
  bias_gelu(wide_x.data(), wide_b.data(), wide_y.data(), rows, columns);
  EXPECT_EQ(widened(y), widened(halves(wide_y)));

  auto g = x;
  auto wide_g = wide_x;
  std::vector<float> db(columns), wide_db(columns);
  bias_gelu_backward(x.data(), b.data(), g.data(), db.data(), true, all);
  bias_gelu_backward(wide_x.data(), wide_b.data(), wide_g.data(), wide_db.data(), true, all);
  EXPECT_EQ(widened(g), widened(halves(wide_g)));
  EXPECT_EQ(db, wide_db) << "sums are of what is not rounded yet";
  column_sums(x.data(), db.data(), false, all);
  column_sums(wide_x.data(), wide_db.data(), false, all);
  EXPECT_EQ(db, wide_db);
}

TEST(RowKernels, Bf16KeepsInfinityAndNotANumber) {
  const auto nothing = halves({0, 0, 0});
  auto y = halves({INFINITY, NAN, 3.3895e38F});  // the last is bf16's largest
  add_bias(y.data(), nothing.data(), 1, 3);
  EXPECT_EQ(static_cast<float>(y[0]), INFINITY);
  EXPECT_TRUE(std::isnan(static_cast<float>(y[1])));
  EXPECT_TRUE(std::isfinite(static_cast<float>(y[2])));
  add_bias_and_residual(y.data(), y.data() + 2, y.data() + 2, 1, 1);  // beyond the largest
  EXPECT_EQ(static_cast<float>(y[0]), INFINITY);
}

TEST(RowKernels, AColumnsSumDoesNotDependOnWhereARangeBegins) {
  const std::size_t rows = 100, columns = 600;
  const auto gy = normals(rows * columns);
  std::vector<float> whole(columns), parts(columns);
  column_sums(gy.data(), whole.data(), true, {rows, columns, 0, columns});
  for (const auto& [begin, end] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {1, 300}, {300, 600}})
    column_sums(gy.data(), parts.data(), true, {rows, columns, begin, end});
  EXPECT_EQ(whole, parts);
  column_sums(gy.data(), parts.data(), false, {rows, columns, 0, columns});
  for (std::size_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (std::size_t n = 0; n < rows; ++n) sum += gy[n * columns + c];
    ASSERT_NEAR(whole[c], sum, 1e-4);
    ASSERT_FLOAT_EQ(parts[c], 2 * whole[c]) << "the second call adds";
  }
}

TEST(RowKernels, CrossEntropyIsThatOfTheFormulaAtEveryWidth) {
  for (const std::size_t columns : {std::size_t{1}, std::size_t{2}, std::size_t{31},
                                    std::size_t{32}, std::size_t{33}, std::size_t{50'257}}) {
    auto logits = normals(columns, 3);
    const std::size_t target = columns / 2;
    double largest = -1e300, sum = 0;
    for (const float x : logits) largest = std::max(largest, double{x});
    for (const float x : logits) sum += std::exp(x - largest);
    const double expected = std::log(sum) + largest - logits[target];
    auto gradient = logits;
    EXPECT_NEAR(cross_entropy(gradient.data(), columns, target, 0.5, true), expected,
                3e-6 * (1 + expected));
    for (std::size_t c = 0; c < columns; ++c) {
      const double p = std::exp(logits[c] - largest) / sum;
      ASSERT_NEAR(gradient[c], 0.5 * (p - (c == target ? 1 : 0)), 1e-6 * p + 1e-7);
    }
  }
}

// The three numbers that ranks exchange, put together again.
TEST(RowKernels, CrossEntropyInPartsIsThatOfTheWholeRow) {
  const std::size_t columns = 50'257, target = 30'000;
  const auto logits = normals(columns, 3);
  auto whole = logits;
  const double loss = cross_entropy(whole.data(), columns, target, 0.5, true);
  for (const std::size_t edge : {std::size_t{1}, std::size_t{25'129}, columns - 1}) {
    auto parts = logits;
    float* second = parts.data() + edge;
    const float most = std::max(largest(parts.data(), edge), largest(second, columns - edge));
    const float picked = logits[target] - most;
    const double sum =
        exponentials(parts.data(), edge, most) + exponentials(second, columns - edge, most);
    EXPECT_NEAR(std::log(sum) - picked, loss, 3e-6 * (1 + loss));
    scale(parts.data(), edge, 0.5 / sum);
    scale(second, columns - edge, 0.5 / sum);
    parts[target] -= 0.5F;
    for (std::size_t c = 0; c < columns; ++c) ASSERT_NEAR(parts[c], whole[c], 1e-7) << c;
  }
}

TEST(RowKernels, CrossEntropyShowsWhatIsNotFinite) {
  for (const float bad : {NAN, INFINITY}) {
    auto logits = normals(70);
    logits[40] = bad;
    EXPECT_FALSE(std::isfinite(cross_entropy(logits.data(), logits.size(), 3, 1, true))) << bad;
  }
}

}  // namespace
}  // namespace tutti::parallel
