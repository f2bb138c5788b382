// Counts against the published sizes and against formulas that do not go through Param.
#include "spec/model_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "spec/graph.h"
#include "spec/memory.h"

namespace tutti::spec {
namespace {

ModelSpec preset(const std::string& name) {
  std::vector<core::Problem> problems;
  ModelOptions options;
  options.preset = name;
  const ModelOptions model = resolve(options, 0, problems);
  EXPECT_TRUE(problems.empty());
  return describe(model);
}

ModelOptions tiny() {
  ModelOptions options;
  options.layers = 2;
  options.hidden = 32;
  options.heads = 4;
  options.context = 64;
  return options;
}

TEST(ModelSpec, PresetsHaveTheReleasedModelsParameterCounts) {
  EXPECT_EQ(preset("gpt2-124m").num_params(), 124439808);
  EXPECT_EQ(preset("gpt2-355m").num_params(), 354823168);
  EXPECT_EQ(preset("gpt2-774m").num_params(), 774030080);
  EXPECT_EQ(preset("gpt2-1558m").num_params(), 1557611200);
}

TEST(ModelSpec, CountsTheOperationsOfOneTokenOf124M) {
  // 6 x (12 x 12 x 768^2 + 50257 x 768) + 6 x 12 x 768 x 256
  EXPECT_DOUBLE_EQ(preset("gpt2-124m").train_flops_per_token(256), 755347968.0);
}

TEST(ModelSpec, AnUntiedHeadIsOneMoreMatrixWithTheSameOperations) {
  std::vector<core::Problem> problems;
  ModelOptions untied = tiny();
  untied.tied = false;
  const ModelSpec a = describe(resolve(tiny(), 256, problems));
  const ModelSpec b = describe(resolve(untied, 256, problems));
  EXPECT_EQ(b.num_params() - a.num_params(), 256 * 32);
  EXPECT_DOUBLE_EQ(a.train_flops_per_token(64), b.train_flops_per_token(64));
}

TEST(ModelSpec, NamesAreUniqueAndLayersAscend) {
  const ModelSpec spec = preset("gpt2-124m");
  std::set<std::string> names;
  int layer = -1;
  for (const Param& param : spec.params) {
    EXPECT_TRUE(names.insert(param.name).second) << param.name;
    EXPECT_GE(param.layer, layer);
    EXPECT_EQ(param.decay, param.shape.size() == 2) << param.name;
    layer = param.layer;
  }
  EXPECT_EQ(layer, spec.model.layers);
}

TEST(LocalParams, ArePartsThatMakeUpTheModel) {
  const ModelSpec spec = preset("gpt2-124m");
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<std::int64_t> found(spec.params.size(), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<Param> local = local_params(spec.params, rank, ranks);
      for (std::size_t i = 0; i < local.size(); ++i) {
        if (!spec.params[i].tp) {
          EXPECT_EQ(local[i].shape, spec.params[i].shape);
        }
        found[i] += local[i].elements();
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Param& param = spec.params[i];
      EXPECT_EQ(found[i], param.elements() * (param.tp ? 1 : ranks)) << param.name;
    }
  }
}

TEST(LocalParams, OfMoreRanksThanWordsAreRefused) {
  std::vector<core::Problem> problems;
  const ModelSpec spec = describe(resolve(tiny(), 3, problems));
  EXPECT_NO_THROW(local_params(spec.params, 1, 2));
  EXPECT_THROW(local_params(spec.params, 3, 4), std::invalid_argument);
}

TEST(ModelSpec, FillsWhatTheConfigLeavesOut) {
  std::vector<core::Problem> problems;
  const ModelOptions model = resolve(tiny(), 256, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(model.ffn, 128);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.vocab, 256);
}

TEST(ModelSpec, ReportsEveryMistakeAtOnce) {
  std::vector<core::Problem> problems;
  ModelOptions options = tiny();
  options.heads = 5;
  options.context = 0;
  options.dropout = 1.0;
  resolve(options, 256, problems);
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_NE(problems[2].text.find("Set heads to one of 1, 2, 4, 8, 16"), std::string::npos);
}

TEST(ModelSpec, GroupedQueriesShareKeysAndValues) {
  std::vector<core::Problem> problems;
  ModelOptions options = tiny();
  options.kv_heads = 2;
  const ModelSpec grouped = describe(resolve(options, 256, problems));
  const auto qkv = std::ranges::find(grouped.params, "blocks.0.attn.qkv.weight", &Param::name);
  ASSERT_NE(qkv, grouped.params.end());
  EXPECT_EQ(qkv->shape, (std::vector<std::int64_t>{32 + 2 * 16, 32}));
  EXPECT_EQ(grouped.num_params(), graph(grouped.model).parameters().value());
  options.kv_heads = 3;
  resolve(options, 256, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].text.find("Set kv_heads to one of 1, 2, 4"), std::string::npos);
}

TEST(ModelSpec, NamesTheNearestPreset) {
  std::vector<core::Problem> problems;
  ModelOptions options;
  options.preset = "gpt2-125m";
  resolve(options, 0, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].text.find("did you mean \"gpt2-124m\""), std::string::npos);
}

}  // namespace
}  // namespace tutti::spec
