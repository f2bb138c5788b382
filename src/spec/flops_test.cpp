// The conventions against figures that were published with them.
#include "spec/flops.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace tutti::spec {
namespace {

const DecoderSizes kGpt175{.layers = 96,
                           .hidden = 12288,
                           .heads = 96,
                           .kv_heads = 96,
                           .ffn = 49152,
                           .vocab = 51200,
                           .positions = 2048,
                           .tied = true};
const DecoderSizes kLlama8{.layers = 32,
                           .hidden = 4096,
                           .heads = 32,
                           .kv_heads = 8,
                           .ffn = 14336,
                           .vocab = 128256,
                           .gated = true};
const DecoderSizes kLlama405{.layers = 126,
                             .hidden = 16384,
                             .heads = 128,
                             .kv_heads = 8,
                             .ffn = 53248,
                             .vocab = 128256,
                             .gated = true};

double step(const char* name, const FlopsQuestion& question) {
  std::vector<core::Problem> problems;
  const FlopsConvention* convention = flops_convention(name, problems);
  EXPECT_NE(convention, nullptr);
  return convention->step(question);
}

TEST(Flops, Megatron96GivesThePublishedStepOf175B) {
  // 1,536 sequences at 138 TFLOP/s on each of 1,024 devices: about 32 s.
  const double flops = step("megatron96", {kGpt175, 1536, 2048});
  EXPECT_NEAR(flops / (1024 * 138e12), 31.9, 0.1);
}

TEST(Flops, FullRecomputeTurnsTheOneFormulaIntoTheOther) {
  const FlopsQuestion question{kGpt175, 7, 2048};
  const double run =
      hardware_flops(decoder_graph(kGpt175), 2048, 7, Attention::FullSquare, Recompute::Full);
  EXPECT_NEAR(run / step("megatron96", question), 1, 1e-12);
  EXPECT_NEAR(step("model_square", question) / step("megatron72", question), 1, 1e-12);
  EXPECT_NEAR(step("dgxc", question) / step("megatron72", question), 1, 1e-12);
}

TEST(Flops, RecomputingTheCoreAddsOneForwardOfIt) {
  const double none =
      hardware_flops(decoder_graph(kGpt175), 2048, 1, Attention::FullSquare, Recompute::None);
  const double core =
      hardware_flops(decoder_graph(kGpt175), 2048, 1, Attention::FullSquare, Recompute::Core);
  EXPECT_DOUBLE_EQ(core - none, 4.0 * 2048 * 2048 * 12288 * 96);
}

TEST(Flops, MegatronCausalGivesThePublishedCostOfAToken) {
  // 744 TFLOP/s at 14,451 tokens/s
  EXPECT_NEAR(step("megatron_causal", {kLlama8, 1, 8192}) / 8192, 744e12 / 14451, 0.05e9);
}

TEST(Flops, TorchtitanGivesItsOwnUtilisation) {
  const double per_token = step("torchtitan", {kLlama405, 1, 8192}) / 8192;
  EXPECT_NEAR(100 * per_token / 989e12, 0.2652, 0.0005);
}

TEST(Flops, NamesTheNearestConvention) {
  std::vector<core::Problem> problems;
  EXPECT_EQ(flops_convention("megatron-causal", problems), nullptr);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].text.find("did you mean \"megatron_causal\""), std::string::npos);
}

TEST(Utilisation, IsUnknownWithoutAPeakAndRefusesMoreThanAll) {
  EXPECT_EQ(utilisation(1e12, 0, "mfu"), std::nullopt);
  EXPECT_DOUBLE_EQ(utilisation(1e12, 4e12, "mfu").value(), 0.25);
  EXPECT_DOUBLE_EQ(utilisation(4e12, 4e12, "mfu").value(), 1.0);
  EXPECT_THROW((void)utilisation(4.1e12, 4e12, "mfu"), core::RunError);
}

}  // namespace
}  // namespace tutti::spec
