// Orders from CSV: what comes back, which lines are refused and how they are named.
#include "schedule/order_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "schedule/pipeline.h"
#include "schedule/pipeline_verify.h"

namespace tutti::schedule {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& text, const OrderHints& hints = {}) {
  try {
    read_order(text, hints);
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OrderCsv, GivesBackEveryGeneratedOrder) {
  for (const std::string& name : pipeline_names()) {
    const PipelineSchedule schedule = make_pipeline({name, 3, 5, 0, {}, {}});
    const PipelineSchedule again = read_order(write_order(schedule)).schedule;
    EXPECT_EQ(again.actions, schedule.actions) << name;
    EXPECT_EQ(again.shape, schedule.shape) << name;
    EXPECT_EQ(again.slots, schedule.slots) << name;
  }
}

TEST(OrderCsv, AddsTransfersAndKeepsTheLinesOfTheirActions) {
  const OrderFile file = read_order(
      "# two stages\n"
      "stage,action,microbatch\n"
      "0,F,0\r\n"
      "1, F , 0\n"
      "1,B,0\n"
      "\n"
      "0,B,0\n");
  EXPECT_EQ(file.schedule.shape, (PipelineShape{2, 1, 1}));
  EXPECT_THAT(file.schedule.actions[1],
              ElementsAre(PipelineAction{Kind::RecvForward}, PipelineAction{Kind::Forward},
                          PipelineAction{Kind::Backward}, PipelineAction{Kind::SendBackward}));
  EXPECT_THAT(file.lines[0], ElementsAre(3, 3, 7, 7));
  EXPECT_THAT(file.lines[1], ElementsAre(4, 4, 5, 5));
  EXPECT_TRUE(verify(file.schedule).ok());
}

TEST(OrderCsv, VerifyNamesTheLinesThatWaitForEachOther) {
  const OrderFile file = read_order(
      "stage,action,microbatch,chunk\n"
      "0,F,0,0\n0,B,0,0\n0,F,1,0\n0,B,1,0\n"
      "1,F,0,0\n1,F,1,0\n1,B,0,0\n1,B,1,0\n");
  const Verdict verdict = verify(file.schedule, {{}, &file.lines});
  ASSERT_EQ(verdict.problems.size(), 1U);
  EXPECT_THAT(verdict.problems[0],
              HasSubstr("line 3 (RB0 of stage 0) waits for line 8 (SB0 of stage 1); line 7 (RF1 of "
                        "stage 1) waits for line 4 (SF1 of stage 0)"));
}

TEST(OrderCsv, NamesTheLineOfADoubledAndOfATooEarlyAction) {
  const std::string head = "stage,action,microbatch\n0,F,0\n";
  const OrderFile doubled = read_order(head + "0,F,0\n0,B,0\n");
  EXPECT_THAT(verify(doubled.schedule, {{}, &doubled.lines}).problems,
              ElementsAre(HasSubstr("line 3 (F0 of stage 0) is doubled")));
  const OrderFile early = read_order(head + "0,W,0\n0,I,0\n");
  EXPECT_THAT(verify(early.schedule, {{}, &early.lines}).problems,
              ElementsAre(HasSubstr("line 3 (W0 of stage 0) comes too early")));
}

TEST(OrderCsv, RefusesEveryWrongLineByNumber) {
  EXPECT_EQ(
      refusal(
          "stage,action,microbatch\n0,F,0\n0,X,0\n-1,F,0\n0,F\n0,F,zero\n0,F,99999999\n0,F,0,0\n"),
      "line 3: action 'X' is unknown: one of F, I, W, B, SF, RF, SB, RB.\n"
      "line 4: stage '-1' is not a number from 0 to 1048576\n"
      "line 5: 2 fields where the header has 3\n"
      "line 6: micro-batch 'zero' is not a number from 0 to 1048576\n"
      "line 7: micro-batch '99999999' is not a number from 0 to 1048576\n"
      "line 8: 4 fields where the header has 3");
}

TEST(OrderCsv, RefusesAWrongHeaderAnEmptyFileAndAnUnknownPlacement) {
  EXPECT_THAT(refusal("stage,kind,microbatch\n0,F,0\n"),
              HasSubstr("line 1: header stage,kind,microbatch is not"));
  EXPECT_THAT(refusal(""), HasSubstr("no actions"));
  EXPECT_THAT(refusal("stage,action,microbatch\n"), HasSubstr("no actions"));
  EXPECT_THAT(refusal("placement,w\nstage,action,microbatch\n0,F,0\n"),
              HasSubstr("line 1: placement w is unknown"));
}

TEST(OrderCsv, HoldsTheFileAgainstWhatTheUserSaid) {
  EXPECT_THAT(refusal("stage,action,microbatch\n0,F,0\n2,F,0\n", {2, {}, {}}),
              HasSubstr("line 3: stage 2 is impossible"));
  EXPECT_THAT(refusal("stage,action,microbatch\n0,F,4\n", {{}, 4, {}}),
              HasSubstr("line 2: micro-batch 4 is impossible"));
  const OrderFile file = read_order("stage,action,microbatch\n0,F,0\n0,B,0\n", {{}, 2, {}});
  EXPECT_THAT(verify(file.schedule).problems.front(), HasSubstr("stage 0 never does F1"));
}

TEST(OrderCsv, ComparesTheBytesOfASendAndItsReceive) {
  const std::string text =
      "stage,action,microbatch,chunk,bytes\n"
      "0,F,0,0,\n0,SF,0,0,4096\n0,RB,0,0,\n0,B,0,0,\n"
      "1,RF,0,0,{}\n1,F,0,0\n1,B,0,0\n1,SB,0,0,4096\n";
  EXPECT_EQ(refusal(fmt::format(fmt::runtime(text), 4096)), "accepted");
  EXPECT_EQ(refusal(fmt::format(fmt::runtime(text), 2048)),
            "line 6: receives 2048 bytes, but line 3 sends 4096");
}

}  // namespace
}  // namespace tutti::schedule
