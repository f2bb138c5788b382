// What a plan says is what is read back, and what was edited into nonsense is named.
#include "train/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/file.h"
#include "core/temporary_folder.h"

namespace tutti::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

comm::ChoiceTable table(schedule::Algorithm algorithm) {
  comm::ChoiceTable table;
  table.set({comm::Collective::AllReduce, 2, 4096, algorithm, "measured"});
  return table;
}

TEST(PlanFile, ReadsBackEveryDecision) {
  const core::TemporaryFolder folder("plan");
  const auto path = folder.path() / "plan.json";
  Plan plan;
  plan.layout.zero = 1;
  plan.bucket_bytes = 12345;
  plan.keep_gathered = true;
  plan.precision = choose_precision(1e12, 8e12);
  plan.collectives = table(schedule::Algorithm::Ring);
  write_plan(path, plan);
  const Plan read = read_plan(path);
  EXPECT_EQ(read.layout, plan.layout);
  EXPECT_EQ(read.bucket_bytes, 12345);
  EXPECT_EQ(read.keep_gathered, true);
  EXPECT_EQ(read.precision, plan.precision);
  ASSERT_TRUE(read.collectives.has_value());
  EXPECT_EQ(read.collectives->choose(comm::Collective::AllReduce, {2, 2, false}, 1000).algorithm,
            schedule::Algorithm::Ring);
}

TEST(PlanFile, LeavesWhatIsNotDecidedOpen) {
  const core::TemporaryFolder folder("plan");
  const auto path = folder.path() / "plan.json";
  write_plan(path, {});
  const Plan read = read_plan(path);
  EXPECT_FALSE(read.bucket_bytes.has_value());
  EXPECT_FALSE(read.keep_gathered.has_value());
  EXPECT_FALSE(read.precision.has_value());
  EXPECT_FALSE(read.collectives.has_value());
}

TEST(PlanFile, NamesTheRowThatWasEditedIntoNonsense) {
  const core::TemporaryFolder folder("plan");
  const auto path = folder.path() / "plan.json";
  Plan plan;
  plan.collectives = table(schedule::Algorithm::Ring);
  core::Json json = to_json(plan);
  json["collectives"]["rows"][0]["algorithm"] = "rings";
  core::write_file_atomically(path, json.dump());
  try {
    read_plan(path);
    FAIL() << "a row with an unknown algorithm was read";
  } catch (const core::ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rings"), HasSubstr("row 0")));
  }
}

TEST(PlanFile, RefusesAPrecisionThatNobodyComputesIn) {
  const core::TemporaryFolder folder("plan");
  const auto path = folder.path() / "plan.json";
  Plan plan;
  plan.precision = {.type = "fp8"};
  write_plan(path, plan);
  try {
    read_plan(path);
    FAIL() << "fp8 was read";
  } catch (const core::ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"fp8\""), HasSubstr("fp32, bf16 or fp64")));
  }
}

}  // namespace
}  // namespace tutti::train
