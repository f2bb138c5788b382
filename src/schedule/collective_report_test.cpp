// The document about a collective.
#include "schedule/collective_report.h"

#include <gtest/gtest.h>

namespace tutti::schedule {
namespace {

TEST(CollectiveReport, SaysCostProofAndSteps) {
  EXPECT_EQ(describe(report({.algorithm = Algorithm::Doubling, .ranks = 2, .elements = 4})),
            "doubling all-reduce of 2 ranks, 4 elements\n"
            "cost    1 rounds; the busiest rank moves 4 elements and adds 4\n"
            "proven  no deadlock with 1 of 1 slots, no race, every element once and in order\n"
            "step  rank 0  rank 1\n"
            "   0  >1 0:4  >0 0:4\n"
            "   1  +1 0:4  +0 0:4\n");
}

TEST(CollectiveReport, JsonHoldsTheSameNumbers) {
  const core::Json json = to_json(report({.ranks = 4, .elements = 8}));
  EXPECT_EQ(
      json.dump(),
      R"({"operation":"all-reduce","algorithm":"ring","ranks":4,"elements":8,"rounds":6,"moved_elements":12.0,)"
      R"("added_elements":6.0,"scratch_elements":0,"slots":1,"smallest_slots":1,"deadlock_free":true,"ok":true,)"
      R"("fault":null,"text":null})");
}

TEST(CollectiveReport, ARefusedScheduleSaysWhy) {
  CollectiveReport bad = report({.algorithm = Algorithm::Doubling, .ranks = 2, .elements = 4});
  StepLists lists = bad.schedule.all_lists();
  lists[0].clear();
  bad.verdict = verify(with_lists(bad.schedule, lists));
  EXPECT_NE(describe(bad).find("refused deadlock: rank 1 waits in step 1"), std::string::npos)
      << describe(bad);
  EXPECT_EQ(to_json(bad)["fault"], "deadlock");
  EXPECT_EQ(to_json(bad)["deadlock_free"], false);
}

TEST(CollectiveReport, RefusesMoreRanksThanItCanProve) {
  for (const Operation operation : all_operations()) {
    for (const Algorithm algorithm : all_algorithms()) {
      if (!supports(operation, algorithm)) continue;
      EXPECT_THROW(
          report({.operation = operation, .algorithm = algorithm, .ranks = 1 << 30, .group = 1}),
          core::ConfigError)
          << name(algorithm) << ' ' << name(operation);
    }
  }
  EXPECT_TRUE(report({.ranks = 4096, .elements = 4096}).verdict.ok());
  EXPECT_TRUE(report({.algorithm = Algorithm::Direct, .ranks = 256, .elements = 256}).verdict.ok());
}

TEST(CollectiveReport, AllMistakesOfTheUserComeAtOnce) {
  try {
    report({.operation = Operation::Reduce,
            .algorithm = Algorithm::Tree,
            .ranks = 2,
            .root = 5,
            .chunks = -1});
    FAIL() << "accepted";
  } catch (const core::ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 2u);
  }
}

}  // namespace
}  // namespace tutti::schedule
