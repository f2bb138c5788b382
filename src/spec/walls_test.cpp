// The numbers of docs/three-walls.md from published ones.
#include "spec/walls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::spec {
namespace {

const DecoderSizes kGpt3{.layers = 96,
                         .hidden = 12288,
                         .heads = 96,
                         .kv_heads = 96,
                         .ffn = 49152,
                         .vocab = 50257,
                         .positions = 2048,
                         .tied = true};

TEST(Walls, TheWeightsOfGpt3MoveInElevenSecondsOverPcieAndASixthOfOneInHbm) {
  const Graph graph = decoder_graph(kGpt3);
  EXPECT_NEAR(move_seconds(graph, {.bandwidth = 32e9}), 174.6e9 * 2 / 32e9, 0.01);
  EXPECT_NEAR(move_seconds(graph, {.bandwidth = 2039e9}), 0.1713, 0.0001);
}

TEST(Walls, Gpt3TakesDecadesOnOneDevice) {
  const Graph graph = decoder_graph(kGpt3);
  constexpr double kYear = 365.25 * 86400;
  // Brown et al.: 3.14e23 operations for 300 billion tokens (6 N and no attention).
  const double seconds = compute_seconds(
      graph, {.tokens = 300e9, .peak_flops = 312e12, .utilisation = 1, .sequence = 2048});
  EXPECT_NEAR(seconds * 312e12 / 3.14e23, 1.0, 0.02);
  EXPECT_NEAR(seconds / kYear, 32, 1);
  EXPECT_DOUBLE_EQ(
      compute_seconds(
          graph, {.tokens = 300e9, .peak_flops = 312e12, .utilisation = 0.5, .sequence = 2048}),
      2 * seconds);
}

TEST(Walls, RefusesShareOfMoreThanAllAndHalfAQuestion) {
  EXPECT_TRUE(check({}).empty());
  EXPECT_EQ(check({.utilisation = 1.1}).size(), 1U);
  EXPECT_EQ(check({.utilisation = 0}).size(), 1U);
  EXPECT_EQ(check({.tokens = 1.0}).size(), 1U);
  EXPECT_EQ(check({.bandwidth = -1.0}).size(), 1U);
}

TEST(Walls, SaysWhatWasAsked) {
  const std::string text = describe(decoder_graph(kGpt3), {.tokens = 300e9,
                                                           .peak_flops = 312e12,
                                                           .utilisation = 0.45,
                                                           .bandwidth = 32e9,
                                                           .sequence = 2048});
  for (const char* part : {"349.2 GB", "years", "45 %", "10.9 s"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace tutti::spec
