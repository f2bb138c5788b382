// Parameters, operations and kept bytes against released counts and formulas that do not walk a
// graph.
#include "spec/graph.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "spec/model_spec.h"

namespace tutti::spec {
namespace {

ModelOptions preset(const std::string& name) {
  std::vector<core::Problem> problems;
  ModelOptions options;
  options.preset = name;
  const ModelOptions model = resolve(options, 0, problems);
  EXPECT_TRUE(problems.empty()) << name << ": " << (problems.empty() ? "" : problems[0].text);
  return model;
}

DecoderSizes gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocab = 51200,
          .positions = 2048,
          .tied = true};
}

TEST(Graph, HasTheParametersOfTheReleasedModels) {
  const std::pair<const char*, std::int64_t> released[] = {
      {"gpt2-124m", 124'439'808},       {"gpt2-1558m", 1'557'611'200},
      {"llama2-7b", 6'738'415'616},     {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},   {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},   {"llama3-405b", 405'853'388'800},
      {"mixtral-8x7b", 46'702'792'704}, {"resnet50", 25'557'032}};
  for (const auto& [name, count] : released) {
    EXPECT_EQ(graph(preset(name)).parameters(), Count(count)) << name;
  }
}

TEST(Graph, CountsWhatTheListOfParametersCountsForEveryPreset) {
  for (const std::string& name : presets()) {
    const ModelOptions model = preset(name);
    EXPECT_EQ(graph(model).parameters(), Count(describe(model).num_params())) << name;
  }
}

TEST(Graph, CountsWhatTheListCountsForMixturesWithSharedExpertsAndDenseLayers) {
  ModelOptions model = preset("mixtral-8x7b");
  model.shared_experts = 2;
  model.dense_layers = 3;
  model.expert_ffn = 1024;
  EXPECT_EQ(graph(model).parameters(), Count(describe(model).num_params()));
}

TEST(Graph, SplitsWhatTheListOfParametersSplits) {
  for (const char* name : {"gpt2-124m", "llama3-8b", "mixtral-8x7b"}) {
    const ModelOptions model = preset(name);
    Weights listed;
    for (const Param& param : describe(model).params) {
      (param.expert ? listed.experts : param.tp ? listed.split : listed.whole) += param.elements();
    }
    const Graph g = graph(model);
    Weights walked = g.embedding.weights();
    walked.split = walked.split - g.tied;
    for (const LayerKind& kind : g.blocks) {
      walked.split += kind.count * kind.weights().split;
      walked.whole += kind.count * kind.weights().whole;
      walked.experts += kind.count * kind.weights().experts;
    }
    walked.split += g.head.weights().split;
    walked.whole += g.head.weights().whole;
    EXPECT_EQ(walked.split, listed.split) << name;
    EXPECT_EQ(walked.whole, listed.whole) << name;
    EXPECT_EQ(walked.experts, listed.experts) << name;
  }
}

TEST(Graph, AStepOfAGptIsTheFormulaOfKorthikanti) {
  const std::int64_t L = 96, h = 12288, s = 2048, V = 51200;
  const Graph g = decoder_graph(gpt(L, h, 96));
  // 72 s L h^2 (1 + s/6h + V/12Lh), in whole numbers
  const std::int64_t expected = 72 * s * L * h * h + 12 * s * s * L * h + 6 * s * h * V;
  EXPECT_EQ(g.flops(s, Attention::FullSquare).total(), Count(expected));
  EXPECT_EQ(g.flops(s, Attention::CausalHalf).total(), Count(expected - 6 * s * s * L * h));
}

TEST(Graph, AResnetDoesTheOperationsOfItsPaper) {
  // 4.1e9 multiply-adds with the stride in the 3x3 product.
  const Graph g = graph(preset("resnet50"));
  EXPECT_EQ(g.flops(1, Attention::FullSquare).forward, Count(8'178'368'512));
}

TEST(Graph, KeepsTheBytesOfKorthikantisTable) {
  for (const std::int64_t t : {1, 2, 8}) {
    const std::int64_t s = 1024, b = 4, h = 6144, a = 64;
    const LayerKind block = decoder_graph(gpt(4, h, a)).blocks.front();
    ActivationQuestion question{.tokens = s * b,
                                .keys = s,
                                .tp = static_cast<int>(t),
                                .fused_attention = false,
                                .dropout = true};
    const std::int64_t sbh = s * b * h;
    const std::int64_t core = 5 * a * s * s * b / t;
    EXPECT_EQ(block.activation_bytes(question), Count(10 * sbh + 24 * sbh / t + core));
    question.recompute = Recompute::Core;
    EXPECT_EQ(block.activation_bytes(question), Count(10 * sbh + 24 * sbh / t));
    question.sequence_parallel = true;
    EXPECT_EQ(block.activation_bytes(question), Count(34 * sbh / t));
    question.recompute = Recompute::None;
    EXPECT_EQ(block.activation_bytes(question), Count(34 * sbh / t + core));
    question.recompute = Recompute::Full;
    EXPECT_EQ(block.activation_bytes(question), Count(2 * sbh / t));
    question.sequence_parallel = false;
    EXPECT_EQ(block.activation_bytes(question), Count(2 * sbh));
  }
}

TEST(Graph, FusedAttentionKeepsNoSquareOfTheSequence) {
  const LayerKind block = decoder_graph(gpt(1, 768, 12)).blocks.front();
  ActivationQuestion question{.tokens = 4096, .keys = 4096};
  const Count once = block.activation_bytes(question);
  question.keys = 8192;
  EXPECT_EQ(block.activation_bytes(question), once);
}

TEST(Graph, OwnSelectiveRecomputeDropsNormAndGeluOutputs) {
  const std::int64_t h = 768;
  const LayerKind block = decoder_graph(gpt(1, h, 12)).blocks.front();
  ActivationQuestion question{.tokens = 1, .compute_bytes = 4};
  const Count all = block.activation_bytes(question);
  question.recompute = Recompute::Cheap;
  EXPECT_EQ(all - block.activation_bytes(question), Count(4 * (h + h + 4 * h)));
}

TEST(Graph, CountsTenToTheFifteenParametersExactly) {
  // 12 x 83 x h^2 at h = 10^6 is 9.96e14; the rest comes from the odd terms.
  ModelOptions model;
  model.layers = 83;
  model.hidden = 1'000'003;
  model.heads = 1;
  model.kv_heads = 1;
  model.ffn = 4'000'012;
  model.vocab = 50257;
  model.context = 1024;
  const __int128 h = model.hidden, L = model.layers;
  const __int128 expected = L * (12 * h * h + 13 * h) + (50257 + 1024) * h + 2 * h;
  EXPECT_EQ(graph(model).parameters(), Count(static_cast<std::int64_t>(expected)));
  EXPECT_GT(graph(model).parameters(), Count(996'000'000'000'000));
}

TEST(Graph, RefusesToWrapAround) {
  ModelOptions model;
  model.layers = 1 << 30;
  model.hidden = model.heads = model.kv_heads = 1 << 28;
  model.ffn = 1 << 30;
  model.vocab = model.context = 1 << 30;
  EXPECT_THROW((void)graph(model).parameters(), core::ConfigError);
  EXPECT_THROW(
      (void)decoder_graph(gpt(1, 1 << 20, 1)).flops(std::int64_t{1} << 40, Attention::FullSquare),
      core::ConfigError);
}

TEST(Graph, AnExpertsTokenPaysForTheExpertsItVisits) {
  const ModelOptions model = preset("mixtral-8x7b");
  const std::int64_t h = 4096, f = 14336, L = 32;
  // attention 2 x 2.5 h^2, router, two experts of three matrices, head
  const std::int64_t per_token = L * (5 * h * h + 2 * h * 8 + 2 * 2 * 3 * h * f) + 2 * h * 32000;
  const Flops flops = graph(model).flops(1024, Attention::FullSquare);
  EXPECT_EQ(flops.forward, Count(1024 * per_token + L * 4 * h * 1024 * 1024));
}

}  // namespace
}  // namespace tutti::spec
