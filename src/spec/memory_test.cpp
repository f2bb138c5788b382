// Terms of one rank against formulas and against the schedules themselves.
#include "spec/memory.h"

#include <gtest/gtest.h>

#include "schedule/pipeline.h"
#include "spec/inflight.h"

namespace tutti::spec {
namespace {

DecoderSizes small() {
  return {.layers = 8,
          .hidden = 512,
          .heads = 8,
          .kv_heads = 8,
          .ffn = 2048,
          .vocab = 1024,
          .positions = 256,
          .tied = true};
}

constexpr Runtime kBf16Sums = {};

TEST(PeakInflight, IsWhatTheScheduleHolds) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"}) {
    for (const int p : {2, 4, 6}) {
      for (const int turns : {1, 2, 5}) {
        const int v = std::string(name) == "interleaved" ? 3 : std::string(name) == "zb-v" ? 2 : 1;
        const int m = turns * p;
        if (std::string(name).starts_with("zb-") && m < 2 * p) continue;
        const auto order =
            schedule::make_pipeline({.name = name, .stages = p, .microbatches = m, .chunks = v});
        for (int stage = 0; stage < p; ++stage) {
          const auto closed = peak_inflight({name, p, m, v}, stage);
          ASSERT_TRUE(closed) << name;
          EXPECT_DOUBLE_EQ(*closed, schedule::peak_activations(order, stage))
              << name << " p " << p << " m " << m << " stage " << stage;
        }
      }
    }
  }
}

// Qi et al.: of 74 bytes per token and width 32 wait for the weight gradient.
TEST(PeakInflight, OfASearchedOrderCountsWhatWaitsForWeightGradients) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_DOUBLE_EQ(peak_inflight({"zb-1p", 4, 8, 1, kept_by_searched_orders()}, stage).value(),
                     4 - stage + stage * 32.0 / 74);
  }
}

TEST(PeakInflight, IsUnknownForOrdersThatAreSearched) {
  EXPECT_EQ(peak_inflight({"zb-auto", 4, 8, 1}, 0), std::nullopt);
}

TEST(LayersOfPosition, AreEqualOrCountTheEndsOrGiveTheFirstMore) {
  const auto all = [](std::int64_t layers, std::int64_t positions) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < positions; ++i) {
      result.push_back(layers_of_position(layers, positions, i));
    }
    return result;
  };
  EXPECT_EQ(all(8, 4), (std::vector<std::int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(all(10, 4), (std::vector<std::int64_t>{2, 3, 3, 2}));
  EXPECT_EQ(all(7, 4), (std::vector<std::int64_t>{2, 2, 2, 1}));
}

TEST(Memory, ShardsWhatTheStageOfZeroSays) {
  const Graph g = decoder_graph(small());
  const std::int64_t n = g.parameters().value();
  MemoryLayout layout{.dp = 4, .sequence = 128};
  const std::int64_t expected[][3] = {
      {2 * n, 4 * n, 12 * n}, {2 * n, 4 * n, 3 * n}, {2 * n, n, 3 * n}, {n / 2, n, 3 * n}};
  for (int zero = 0; zero < 4; ++zero) {
    layout.zero = zero;
    const MemoryTerms terms = stage_memory(g, layout, kBf16Sums, 0);
    EXPECT_EQ(terms.parameters, Count(expected[zero][0])) << zero;
    EXPECT_EQ(terms.gradients, Count(expected[zero][1])) << zero;
    EXPECT_EQ(terms.optimizer, Count(expected[zero][2])) << zero;
  }
}

TEST(Memory, ShardGroupsSmallerThanAllReplicasHoldMore) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{.dp = 8, .zero = 1, .sequence = 128};
  const Count all = stage_memory(g, layout, kBf16Sums, 0).optimizer;
  layout.zero_shard = 2;
  EXPECT_EQ(stage_memory(g, layout, kBf16Sums, 0).optimizer, 4 * all);
}

TEST(Memory, ShardGroupsDivideTheReplicasAndHaveSomethingToShareOut) {
  const DecoderSizes sizes = small();
  MemoryLayout layout{.dp = 6, .zero = 1, .zero_shard = 3, .sequence = 128};
  EXPECT_TRUE(check_layout(sizes, layout).empty());
  layout.zero_shard = 4;
  ASSERT_EQ(check_layout(sizes, layout).size(), 1u);
  EXPECT_EQ(check_layout(sizes, layout)[0].text,
            "[parallel] zero_shard = 4 does not divide dp x cp = 6: shard groups are equal. Set it "
            "to one of 1, 2, 3, 6, or 0 for all.");
  layout.zero = 0;
  layout.zero_shard = 2;
  ASSERT_EQ(check_layout(sizes, layout).size(), 1u);
  EXPECT_NE(check_layout(sizes, layout)[0].text.find("nothing that a shard group could share out"),
            std::string::npos);
}

TEST(Memory, ParametersThatStayGatheredAreHeldWhole) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{.dp = 4, .zero = 3, .sequence = 128};
  const MemoryTerms by_layer = stage_memory(g, layout, kBf16Sums, 0);
  MemoryLayout one = layout;
  one.dp = 1;
  const Count whole = stage_memory(g, one, kBf16Sums, 0).parameters;
  layout.keep_gathered = true;
  const MemoryTerms kept = stage_memory(g, layout, kBf16Sums, 0);
  EXPECT_EQ(kept.parameters, by_layer.parameters);
  EXPECT_GE(kept.buffers, whole);
  EXPECT_LT(by_layer.buffers, kept.buffers);
}

TEST(Memory, SharedPagesCountByTheirShareAndAreNamed) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{.dp = 2, .zero = 1, .sequence = 128};
  const MemoryTerms own = stage_memory(g, layout, kBf16Sums, 0);
  Runtime sharing = kBf16Sums;
  sharing.sharing_ranks = 2;
  const MemoryTerms shared = stage_memory(g, layout, sharing, 0);
  EXPECT_EQ(own.shared, Count(0));
  EXPECT_EQ(shared.shared, shared.parameters);
  EXPECT_EQ(2 * shared.parameters, own.parameters);
  EXPECT_EQ(own.total() - shared.total(), shared.shared);
}

TEST(Memory, SharedPagesAreOneCopyAlsoAtZeRO3AndNothingIsGathered) {
  const Graph g = decoder_graph(small());
  Runtime sharing = kBf16Sums;
  sharing.sharing_ranks = 4;
  const MemoryLayout layout{.dp = 4, .zero = 3, .sequence = 128};
  const MemoryTerms own = stage_memory(g, layout, kBf16Sums, 0);
  const MemoryTerms shared = stage_memory(g, layout, sharing, 0);
  EXPECT_EQ(shared.parameters, own.parameters);
  EXPECT_EQ(shared.shared, shared.parameters);
  EXPECT_GT(own.buffers, Count(0));
  EXPECT_EQ(shared.buffers, Count(0));
}

TEST(Memory, AWholeGradientLivesUntilItIsReduced) {
  const Graph g = decoder_graph(small());
  Runtime whole = kBf16Sums;
  whole.whole_gradients = true;
  const Count block = g.blocks[0].weights().total(), ends = g.parameters() - g.layers() * block;
  for (const int zero : {0, 1, 2}) {
    MemoryLayout layout{.dp = 4, .zero = zero, .sequence = 128};
    const Count expected = zero < 2 ? Count(0) : 4 * (block + ends);
    EXPECT_EQ(stage_memory(g, layout, whole, 0).buffers, expected) << zero;
    layout.dp = 1;
    EXPECT_EQ(stage_memory(g, layout, whole, 0).buffers, Count(0)) << "nothing is sharded";
  }
  // Beside gathered bf16 parameters it is fp32.
  const MemoryLayout three{.dp = 4, .zero = 3, .sequence = 128};
  EXPECT_EQ(stage_memory(g, three, whole, 0).buffers, 2 * (2 * block + ends) + 4 * (block + ends));
}

TEST(Memory, ACheckpointIsCopiedInEqualPartsWhateverTheStageOfZero) {
  const Graph g = decoder_graph(small());
  Runtime saving = kBf16Sums;
  saving.checkpoint_bytes = 12;
  for (const int zero : {0, 1}) {
    const MemoryLayout layout{.dp = 4, .zero = zero, .sequence = 128};
    EXPECT_EQ(stage_memory(g, layout, saving, 0).buffers, 3 * g.parameters()) << zero;
    EXPECT_EQ(stage_memory(g, layout, kBf16Sums, 0).buffers, Count(0)) << zero;
  }
}

TEST(Memory, StagesOfAPipelineHoldAllParametersOnceAndATiedHeadTwice) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{.pp = 4, .microbatches = 8, .sequence = 128};
  Count sum = 0;
  for (int stage = 0; stage < 4; ++stage) {
    sum += stage_memory(g, layout, kBf16Sums, stage).parameters;
  }
  EXPECT_EQ(sum, 2 * (g.parameters() + g.tied));
}

TEST(Memory, AVHoldsBothEndsOnItsFirstStage) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{.pp = 2, .schedule = "zb-v", .chunks = 2, .microbatches = 8, .sequence = 128};
  EXPECT_GT(stage_memory(g, layout, kBf16Sums, 0).logits, Count(0));
  EXPECT_EQ(stage_memory(g, layout, kBf16Sums, 1).logits, Count(0));
}

TEST(Memory, TensorParallelismDividesMatricesAndLeavesNormsWhole) {
  const DecoderSizes sizes = small();
  const Graph g = decoder_graph(sizes);
  MemoryLayout layout{.tp = 4, .sequence = 128};
  // whole: per layer two norms and two biases of h, final norm, positions
  const std::int64_t whole = 8 * 6 * 512 + 2 * 512 + 256 * 512;
  const std::int64_t split = g.parameters().value() - whole;
  EXPECT_EQ(stage_memory(g, layout, kBf16Sums, 0).parameters, Count(2 * (split / 4 + whole)));
}

TEST(Memory, ExpertsAreDealtOutOverTheirAxisAndShardedOverTheRest) {
  DecoderSizes sizes{.layers = 2,
                     .hidden = 256,
                     .heads = 4,
                     .kv_heads = 4,
                     .ffn = 512,
                     .vocab = 512,
                     .gated = true,
                     .experts = 8,
                     .top_k = 2,
                     .expert_ffn = 512};
  const Graph g = decoder_graph(sizes);
  const Weights block = g.blocks.front().weights();
  const Count dense = g.parameters() - 2 * block.experts;
  MemoryLayout layout{.dp = 8, .ep = 4, .zero = 1, .sequence = 64};
  const MemoryTerms terms = stage_memory(g, layout, kBf16Sums, 0);
  const Count experts = share(block.experts, 4) * 2;
  EXPECT_EQ(terms.parameters, 2 * (dense + experts));
  EXPECT_EQ(terms.optimizer, share(12 * dense, 8) + share(12 * experts, 2));
}

TEST(Memory, AStageHoldsActivationsOfAllMicroBatchesInFlight) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{.pp = 4, .microbatches = 8, .micro = 2, .sequence = 128};
  const Count layer =
      g.blocks.front().activation_bytes({.tokens = 256, .keys = 128, .fused_attention = true});
  EXPECT_EQ(stage_memory(g, layout, kBf16Sums, 1).activations, 3 * 2 * layer);
  EXPECT_EQ(stage_memory(g, layout, kBf16Sums, 2).activations, 2 * 2 * layer);
}

TEST(Memory, ContextParallelismDividesTokens) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{.micro = 2, .sequence = 256};
  const Count whole = stage_memory(g, layout, kBf16Sums, 0).activations;
  layout.cp = 4;
  EXPECT_EQ(4 * stage_memory(g, layout, kBf16Sums, 0).activations, whole);
}

TEST(Memory, LogitsInPiecesStayAtThePiecesSize) {
  const Graph g = decoder_graph(small());
  Runtime pieces = kBf16Sums;
  pieces.logit_rows = 100;
  pieces.logit_bytes = 4;
  MemoryLayout layout{.micro = 4, .sequence = 256};
  EXPECT_EQ(stage_memory(g, layout, pieces, 0).logits, Count(4 * 100 * 1024));
  layout.sequence = 16;
  EXPECT_EQ(stage_memory(g, layout, pieces, 0).logits, Count(4 * 64 * 1024));
}

TEST(Memory, ASearchedOrderIsAskedForItsOwnPeak) {
  const Graph g = decoder_graph(small());
  MemoryLayout layout{
      .pp = 2, .schedule = "zb-auto", .microbatches = 4, .micro = 1, .sequence = 128};
  const Count layer = g.blocks.front().activation_bytes({.tokens = 128, .keys = 128});
  const MemoryTerms terms = stage_memory(g, layout, kBf16Sums, 0);
  EXPECT_GE(terms.activations, 4 * layer);
  EXPECT_LE(terms.activations, 2 * 4 * layer);
}

}  // namespace
}  // namespace tutti::spec
