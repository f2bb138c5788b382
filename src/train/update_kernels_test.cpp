// AdamW and SGD against the textbook in double, and equal bits however a range is cut.
#include "train/update_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tutti::train {
namespace {

constexpr std::size_t kCount = 137;  // no multiple of any vector's width
constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kLr = 0.01, kDecay = 0.1, kEps = 1e-8, kScale = 0.5;

template <class T>
struct Values {
  std::vector<T> w, g, m, v;
  friend bool operator==(const Values&, const Values&) = default;
  UpdateRange<T> range(std::size_t begin, std::size_t end) {
    return {w.data() + begin, g.data() + begin, m.data() + begin, v.data() + begin, end - begin};
  }
};

// Values of both signs and several magnitudes; the squares in v are not negative.
template <class T>
Values<T> some_values() {
  Values<T> values;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double x = static_cast<double>(i);
    values.w.push_back(static_cast<T>(std::sin(x)));
    values.g.push_back(static_cast<T>(std::cos(3 * x) * std::pow(10, static_cast<int>(i % 5) - 2)));
    values.m.push_back(static_cast<T>(0.1 * std::sin(7 * x)));
    values.v.push_back(static_cast<T>(0.01 * (1 + std::cos(x))));
  }
  return values;
}

AdamwRates rates_of_step(int step) {
  return {.lr = kLr,
          .beta1 = kBeta1,
          .beta2 = kBeta2,
          .eps = kEps,
          .weight_decay = kDecay,
          .grad_scale = kScale,
          .correction1 = 1 - std::pow(kBeta1, step),
          .correction2 = 1 - std::pow(kBeta2, step)};
}
constexpr SgdRates kSgd{.lr = kLr, .momentum = 0.9, .weight_decay = kDecay, .grad_scale = kScale};

// The formulas of the papers, one element at a time: bias-corrected means first, then the step.
void textbook_adamw(Values<double>& x, int step) {
  for (std::size_t i = 0; i < kCount; ++i) {
    const double g = kScale * x.g[i];
    x.m[i] = kBeta1 * x.m[i] + (1 - kBeta1) * g;
    x.v[i] = kBeta2 * x.v[i] + (1 - kBeta2) * g * g;
    const double mean = x.m[i] / (1 - std::pow(kBeta1, step));
    const double square = x.v[i] / (1 - std::pow(kBeta2, step));
    x.w[i] -= kLr * kDecay * x.w[i];
    x.w[i] -= kLr * mean / (std::sqrt(square) + kEps);
  }
}

void textbook_sgd(Values<double>& x) {
  for (std::size_t i = 0; i < kCount; ++i) {
    x.m[i] = 0.9 * x.m[i] + kScale * x.g[i] + kDecay * x.w[i];
    x.w[i] -= kLr * x.m[i];
  }
}

template <class T>
void expect_near(const std::vector<T>& found, const std::vector<double>& expected, double bound) {
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(found[i], expected[i], bound * (1 + std::abs(expected[i]))) << "element " << i;
}

template <class T>
class UpdateKernels : public testing::Test {
 public:
  static constexpr double kBound = sizeof(T) == 4 ? 1e-6 : 1e-14;
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(UpdateKernels, Types);

TYPED_TEST(UpdateKernels, ThreeStepsOfAdamwFollowTheTextbook) {
  auto ours = some_values<TypeParam>();
  auto expected = some_values<double>();
  for (int step = 1; step <= 3; ++step) {
    adamw(ours.range(0, kCount), rates_of_step(step));
    textbook_adamw(expected, step);
  }
  expect_near(ours.w, expected.w, this->kBound);
  expect_near(ours.m, expected.m, this->kBound);
  expect_near(ours.v, expected.v, this->kBound);
  EXPECT_EQ(ours.g, some_values<TypeParam>().g);  // gradients are read only
}

TYPED_TEST(UpdateKernels, ThreeStepsOfSgdFollowTheTextbook) {
  auto ours = some_values<TypeParam>();
  auto expected = some_values<double>();
  for (int step = 1; step <= 3; ++step) {
    sgd(ours.range(0, kCount), kSgd);
    textbook_sgd(expected);
  }
  expect_near(ours.w, expected.w, this->kBound);
  expect_near(ours.m, expected.m, this->kBound);
  EXPECT_EQ(ours.v, some_values<TypeParam>().v);  // unused
}

// A shard may begin anywhere: vector body and tail must agree to the bit.
TYPED_TEST(UpdateKernels, CutsDoNotChangeABit) {
  auto whole_adamw = some_values<TypeParam>();
  auto whole_sgd = some_values<TypeParam>();
  adamw(whole_adamw.range(0, kCount), rates_of_step(2));
  sgd(whole_sgd.range(0, kCount), kSgd);
  for (const std::size_t first : {std::size_t{1}, std::size_t{16}, std::size_t{67}}) {
    for (const std::size_t second : {first, first + 1, first + 35}) {
      SCOPED_TRACE(testing::Message() << "cut at " << first << " and " << second);
      auto cut_adamw = some_values<TypeParam>();
      auto cut_sgd = some_values<TypeParam>();
      const std::size_t ends[] = {0, first, second, kCount};
      for (int part = 0; part < 3; ++part) {
        adamw(cut_adamw.range(ends[part], ends[part + 1]), rates_of_step(2));
        sgd(cut_sgd.range(ends[part], ends[part + 1]), kSgd);
      }
      EXPECT_EQ(cut_adamw, whole_adamw);
      EXPECT_EQ(cut_sgd, whole_sgd);
    }
  }
}

}  // namespace
}  // namespace tutti::train
