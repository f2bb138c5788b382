// Norm and clipping factor against the formulas of their header.
#include "train/clip.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace tutti::train {
namespace {

TEST(GradNorm, IsTheRootOfTheSumOfAllBlocks) {
  EXPECT_EQ(grad_norm(std::vector<double>{9, 0, 16}), 5);
  EXPECT_EQ(grad_norm({}), 0);
}

// 2^53 swallows a 1 that is added to it, but not the 2 of two 1s added before.
TEST(GradNorm, AddsInTheGivenOrder) {
  const double large = std::ldexp(1.0, 53);
  const double rest = -large + 4;  // no square is negative; it makes the lost 2 visible
  EXPECT_EQ(grad_norm(std::array{large, 1.0, 1.0, rest}), 2);
  EXPECT_EQ(grad_norm(std::array{1.0, 1.0, large, rest}), std::sqrt(6.0));
}

TEST(GradNorm, IsNotFiniteIfABlockIsNot) {
  EXPECT_FALSE(std::isfinite(grad_norm(std::array{1.0, std::nan("")})));
  EXPECT_FALSE(std::isfinite(grad_norm(std::array{1.0, std::numeric_limits<double>::infinity()})));
}

TEST(ClipScale, BringsALargeNormToTheLimit) {
  EXPECT_DOUBLE_EQ(clip_scale(4, 1), 1 / 4.000001);
  EXPECT_DOUBLE_EQ(clip_scale(4, 0.5), 0.5 / 4.000001);
}

TEST(ClipScale, NeverEnlarges) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(0, 1), 1);
}

// As in PyTorch, the 1e-6 clips a norm that stands exactly at the limit by a hair.
TEST(ClipScale, AtTheLimitIsJustBelowOne) {
  EXPECT_LT(clip_scale(1, 1), 1);
  EXPECT_NEAR(clip_scale(1, 1), 1 - 1e-6, 1e-9);
}

TEST(ClipScale, ZeroMeansNever) { EXPECT_EQ(clip_scale(1e9, 0), 1); }

}  // namespace
}  // namespace tutti::train
