// What is proposed when it does not fit, and in which order.
#include "spec/cures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/memory_report.h"

namespace tutti::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Job {
  DecoderSizes sizes{.layers = 8,
                     .hidden = 512,
                     .heads = 8,
                     .kv_heads = 8,
                     .ffn = 2048,
                     .vocab = 1024,
                     .positions = 256,
                     .tied = true};
  Graph graph = decoder_graph(sizes);
  MemoryLayout layout{.dp = 4, .microbatches = 4, .micro = 4, .sequence = 256};

  [[nodiscard]] std::int64_t needs(MemoryLayout with) const {
    return peak_memory(graph, with, Runtime{}).total().value();
  }
  [[nodiscard]] FitQuestion within(std::int64_t limit) const {
    return {.graph = graph,
            .sizes = sizes,
            .layout = layout,
            .runtime = [](const MemoryLayout&) { return Runtime{}; },
            .limit = [limit](const MemoryLayout&) { return Count(limit); }};
  }
};

std::vector<std::string> changes(const std::vector<Cure>& cures) {
  std::vector<std::string> names;
  for (const Cure& cure : cures) names.push_back(cure.override);
  return names;
}

TEST(Cures, ThereIsNoneForAJobThatFits) {
  const Job job;
  EXPECT_TRUE(cures(job.within(job.needs(job.layout))).empty());
  EXPECT_FALSE(cures(job.within(job.needs(job.layout) - 1)).empty());
}

TEST(Cures, ASmallerMicroBatchComesFirstAndNoSmallerThanNeeded) {
  const Job job;
  MemoryLayout half = job.layout;
  half.micro = 2;
  EXPECT_THAT(changes(cures(job.within(job.needs(half)))), ElementsAre("batch.micro=2"));
}

TEST(Cures, RecomputeComesNext) {
  const Job job;
  MemoryLayout one = job.layout;
  one.micro = 1;
  MemoryLayout full = one;
  full.recompute = Recompute::Cheap;
  ASSERT_LT(job.needs(full), job.needs(one));
  EXPECT_THAT(changes(cures(job.within(job.needs(full)))),
              ElementsAre("batch.micro=1", "parallel.recompute=\"selective\""));
}

TEST(Cures, AnEarlierChangeThatALaterMakesNeedlessIsLeftOut) {
  const Job job;
  MemoryLayout sharded = job.layout;
  sharded.zero = 1;
  const auto found = changes(cures(job.within(job.needs(sharded))));
  EXPECT_THAT(found, ElementsAre("parallel.zero=1"));
}

TEST(Cures, LargerShardGroupsComeBeforeAHigherStage) {
  Job job;
  job.layout.micro = 1;
  job.layout.recompute = Recompute::Full;
  job.layout.zero = 1;
  MemoryLayout whole = job.layout;
  job.layout.zero_shard = 2;
  ASSERT_LT(job.needs(whole), job.needs(job.layout));
  EXPECT_THAT(changes(cures(job.within(job.needs(whole)))), ElementsAre("parallel.zero_shard=0"));
}

TEST(Cures, GoOnToMoreRanksAndTakeThemFromDp) {
  const Job job;
  MemoryLayout split = job.layout;
  split.micro = 1;
  split.recompute = Recompute::Full;
  split.zero = 3;
  split.tp = 2;
  split.dp = 2;
  const std::vector<Cure> found = cures(job.within(job.needs(split)));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().layout.dp * found.back().layout.tp * found.back().layout.pp, 4);
  for (const Cure& cure : found) EXPECT_EQ(check_layout(job.sizes, cure.layout).size(), 0U);
}

TEST(Cures, TakeNoRanksThatAShardGroupNeeds) {
  Job job;
  job.layout.zero = 1;
  job.layout.zero_shard = 4;  // of dp = 4: half of dp cannot hold it
  for (std::int64_t limit = job.needs(job.layout) / 2; limit > 1 << 16; limit /= 2) {
    for (const Cure& cure : cures(job.within(limit)))
      EXPECT_TRUE(check_layout(job.sizes, cure.layout).empty()) << cure.override;
  }
}

TEST(Cures, KeepToWhatMayBeProposed) {
  const Job job;
  MemoryLayout sharded = job.layout;
  sharded.micro = 1;
  sharded.zero = 2;
  FitQuestion question = job.within(job.needs(sharded));
  question.zero = 1;
  question.recompute = false;
  question.tp = question.pp = false;
  EXPECT_TRUE(cures(question).empty());
}

TEST(Cures, ReplicasThatShareEverythingAreTheOtherWay) {
  Job job;
  job.layout.dp = 1;
  job.layout.microbatches = 4;
  MemoryLayout four = job.layout;
  four.dp = 4;
  four.zero = 3;
  four.microbatches = 1;
  const std::optional<Cure> found = sharing_replicas(job.within(job.needs(four)));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found.value().layout.dp, 4);
  EXPECT_EQ(found.value().layout.microbatches, 1);
  EXPECT_EQ(found.value().override, "parallel.dp=4 parallel.zero=3");
  EXPECT_EQ(found.value().terms.total().value(), job.needs(four));
  EXPECT_FALSE(sharing_replicas(job.within(1)).has_value());
  job.layout.microbatches = 1;  // nothing to share
  EXPECT_FALSE(sharing_replicas(job.within(job.needs(four))).has_value());
  MemoryReport report;
  report.ranks = {{0, 0, peak_memory(job.graph, job.layout, Runtime{})}};
  report.limit = 1;
  report.fits = false;
  report.replicas = found;
  EXPECT_THAT(verdict(report), HasSubstr("[parallel] dp = 4 with zero = 3"));
}

TEST(Cures, NothingHelpsWhereNothingIsLeft) {
  const Job job;
  EXPECT_TRUE(cures(job.within(1)).empty());
}

MemoryReport report_of(const Job& job, std::int64_t limit) {
  MemoryReport report;
  report.ranks = {{0, 3, peak_memory(job.graph, job.layout, Runtime{})}};
  report.limit = limit;
  report.limit_name = "--limit";
  report.fits = job.needs(job.layout) <= limit;
  report.cures = cures(job.within(limit));
  return report;
}

TEST(Report, SaysNeedLimitPartsAndCure) {
  const Job job;
  MemoryLayout half = job.layout;
  half.micro = 2;
  const std::string text = verdict(report_of(job, job.needs(half)));
  for (const char* part : {"does not fit", "rank 0 needs", "that --limit gives it", "optimizer",
                           "[batch] micro = 2", "makes it fit."}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(verdict(report_of(job, 1)), HasSubstr("smaller model"));
  EXPECT_THAT(verdict(report_of(job, job.needs(job.layout))), Not(HasSubstr("not")));
}

TEST(Report, JsonHasOneEntryPerRankWhoseTermsAddUp) {
  const Job job;
  const core::Json json = to_json(report_of(job, 1));
  ASSERT_EQ(json["ranks"].size(), 4U);
  for (const core::Json& rank : json["ranks"]) {
    std::int64_t sum = 0;
    for (const char* term : {"parameters", "gradients", "optimizer", "activations", "logits",
                             "buffers", "slack", "base"}) {
      sum += rank[term].get<std::int64_t>();
    }
    EXPECT_EQ(sum, rank["total"].get<std::int64_t>());
  }
  EXPECT_EQ(json["fits"], false);
}

TEST(Report, TheBarIsAsLongAsTheLimitWhereTheRankFillsIt) {
  const Job job;
  const std::string text = describe(report_of(job, job.needs(job.layout)));
  const std::size_t at = text.find("0-3 |");
  ASSERT_NE(at, std::string::npos);
  const std::string bar = text.substr(at + 5, text.find('\n', at) - at - 5);
  EXPECT_EQ(bar.find('|'), 60U);
  EXPECT_EQ(bar.find(' '), std::string::npos);
}

TEST(CheckLayout, RefusesMoreRanksThanWords) {
  Job job;
  job.sizes.vocab = 3;
  job.layout.tp = 4;
  EXPECT_THAT(check_layout(job.sizes, job.layout)[0].text,
              HasSubstr("tp = 4 is more than [model] vocab = 3"));
}

TEST(CheckLayout, NamesWhatDoesNotDivideAndWhatWould) {
  Job job;
  job.layout.tp = 5;
  job.layout.cp = 3;
  job.layout.ep = 2;
  const std::vector<core::Problem> problems = check_layout(job.sizes, job.layout);
  ASSERT_EQ(problems.size(), 5U);
  EXPECT_THAT(problems[0].text, HasSubstr("Set tp to one of 1, 2, 4, 8."));
  EXPECT_THAT(problems[3].text, HasSubstr("[data] sequence = 256"));
  EXPECT_THAT(problems[4].text, HasSubstr("mixture of experts"));
}

}  // namespace
}  // namespace tutti::spec
