// When bf16 is chosen, and what is said about it.
#include "train/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::train {
namespace {

using ::testing::HasSubstr;

TEST(Precision, IsBf16OnlyWhereItsProductsAreClearlyFaster) {
  EXPECT_EQ(choose_precision(100e9, 67e9).type, "fp32");
  EXPECT_EQ(choose_precision(100e9, 109e9).type, "fp32");
  EXPECT_EQ(choose_precision(100e9, 111e9).type, "bf16");
  EXPECT_EQ(choose_precision(1e12, 8e12).type, "bf16");
}

TEST(Precision, SaysWhatWasMeasured) {
  const std::string chosen = describe(choose_precision(89.8e9, 66.9e9));
  EXPECT_THAT(chosen, HasSubstr("fp32 (measured: products of bf16 at 66.9 GFLOP/s, of fp32 at"));
  EXPECT_EQ(describe({.type = "bf16"}), "bf16 with fp32 masters and sums");
  EXPECT_EQ(describe({.type = "fp64"}), "fp64");
}

}  // namespace
}  // namespace tutti::train
