// The corners of each schedule: where phases begin and end.
#include "train/lr.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti::train {
namespace {

constexpr int kSteps = 100;

OptimOptions options(const std::string& schedule, int warmup_steps = 10) {
  OptimOptions result;
  result.lr = 1.0;
  result.min_lr = 0.1;
  result.schedule = schedule;
  result.warmup_steps = warmup_steps;
  return result;
}

TEST(LearningRate, RisesLinearlyAndNeverFromZero) {
  for (const char* schedule : {"cosine", "linear", "wsd", "constant"}) {
    SCOPED_TRACE(schedule);
    EXPECT_DOUBLE_EQ(lr_at(options(schedule), kSteps, 0), 0.1);
    EXPECT_DOUBLE_EQ(lr_at(options(schedule), kSteps, 4), 0.5);
    EXPECT_DOUBLE_EQ(lr_at(options(schedule), kSteps, 9), 1.0);
    EXPECT_DOUBLE_EQ(lr_at(options(schedule), kSteps, 10), 1.0);
  }
}

TEST(LearningRate, WithoutWarmUpBeginsAtTheTop) {
  for (const char* schedule : {"cosine", "linear", "wsd", "constant"}) {
    EXPECT_DOUBLE_EQ(lr_at(options(schedule, 0), kSteps, 0), 1.0) << schedule;
  }
}

// Steps 10 .. 100 are the decay: 28 is its fifth, 55 its middle.
TEST(LearningRate, CosineAndLineMeetInTheMiddleAndAtTheEnd) {
  for (const char* schedule : {"cosine", "linear"}) {
    EXPECT_NEAR(lr_at(options(schedule), kSteps, 55), 0.55, 1e-12) << schedule;
    EXPECT_NEAR(lr_at(options(schedule), kSteps, kSteps), 0.1, 1e-12) << schedule;
  }
  EXPECT_NEAR(lr_at(options("linear"), kSteps, 28), 0.1 + 0.9 * 0.8, 1e-12);
  // cos(pi / 5) = (1 + sqrt 5) / 4.
  EXPECT_NEAR(lr_at(options("cosine"), kSteps, 28), 0.1 + 0.9 * (5 + std::sqrt(5.0)) / 8, 1e-12);
}

TEST(LearningRate, WsdStaysAndThenFallsOverItsLastPhase) {
  OptimOptions optim = options("wsd");
  EXPECT_DOUBLE_EQ(lr_at(optim, kSteps, 80), 1.0);  // 0: a fifth of all steps
  EXPECT_NEAR(lr_at(optim, kSteps, 90), 0.55, 1e-12);
  optim.decay_steps = 40;
  EXPECT_DOUBLE_EQ(lr_at(optim, kSteps, 60), 1.0);
  EXPECT_NEAR(lr_at(optim, kSteps, 80), 0.55, 1e-12);
  EXPECT_NEAR(lr_at(optim, kSteps, kSteps), 0.1, 1e-12);
}

TEST(LearningRate, AWsdDecayLongerThanTheRunBeginsAfterTheWarmUp) {
  OptimOptions optim = options("wsd");
  optim.decay_steps = 1000;
  EXPECT_DOUBLE_EQ(lr_at(optim, kSteps, 10), 1.0);
  EXPECT_NEAR(lr_at(optim, kSteps, 55), 0.55, 1e-12);
}

TEST(LearningRate, ConstantStays) {
  EXPECT_DOUBLE_EQ(lr_at(options("constant"), kSteps, kSteps - 1), 1.0);
}

TEST(LearningRate, AWarmUpAsLongAsTheRunIsAllThereIs) {
  EXPECT_DOUBLE_EQ(lr_at(options("cosine", 10), 10, 9), 1.0);
  EXPECT_DOUBLE_EQ(lr_at(options("cosine", 20), 10, 9), 0.5);
}

}  // namespace
}  // namespace tutti::train
