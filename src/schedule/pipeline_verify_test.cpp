// What verify accepts, what it refuses, and which actions or lines it names.
#include "schedule/pipeline_verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <stdexcept>

#include "schedule/one_f_one_b.h"
#include "schedule/order_csv.h"
#include "schedule/pipeline.h"
#include "schedule/pipeline_simulate.h"

namespace tutti::schedule {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Kind F = Kind::Forward, B = Kind::Backward, I = Kind::BackwardInput,
               W = Kind::BackwardWeight;

/// Two stages, two micro-batches, 1F1B; the lists under test are made from it.
PipelineSchedule small() { return one_f_one_b(2, 2); }

std::string only_problem(const PipelineSchedule& schedule, const VerifyOptions& options = {}) {
  const Verdict verdict = verify(schedule, options);
  EXPECT_EQ(verdict.problems.size(), 1U) << testing::PrintToString(verdict.problems);
  return verdict.problems.empty() ? "" : verdict.problems.front();
}

TEST(Verify, AcceptsEveryOrderOfEverySmallShape) {
  for (const std::string& name : pipeline_names()) {
    for (int stages = 1; stages <= 6; ++stages) {
      for (int microbatches = 1; microbatches <= 13; ++microbatches) {
        for (const int chunks : {0, 1, 3, 4}) {
          if (chunks > 0 && name != "interleaved") continue;
          SCOPED_TRACE(testing::Message()
                       << name << " p " << stages << " m " << microbatches << " v " << chunks);
          const Verdict verdict =
              verify(make_pipeline({name, stages, microbatches, chunks, {}, {}}));
          EXPECT_THAT(verdict.problems, testing::IsEmpty());
          EXPECT_TRUE(verdict.deadlock_free);
        }
      }
    }
  }
}

TEST(Verify, NamesAMissingAction) {
  PipelineSchedule schedule = small();
  std::erase(schedule.actions[0], PipelineAction{B, 1, 0});
  std::erase(schedule.actions[0], PipelineAction{Kind::RecvBackward, 1, 0});
  const auto problems = verify(schedule).problems;
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_THAT(problems[0], HasSubstr("stage 0 never does I1"));
  EXPECT_THAT(problems[1], HasSubstr("stage 0 never does W1"));
  EXPECT_THAT(problems[2], HasSubstr("stage 0 never does RB1"));
}

TEST(Verify, NamesADoubledAction) {
  PipelineSchedule schedule = small();
  schedule.actions[1].push_back({B, 1});
  EXPECT_THAT(only_problem(schedule), HasSubstr("(B1) of stage 1 is doubled"));
  schedule.actions[1].back() = {W, 1};
  EXPECT_THAT(only_problem(schedule), HasSubstr("(W1) of stage 1 is doubled"));
  schedule.actions[1].back() = {I, 1};
  EXPECT_THAT(only_problem(schedule), HasSubstr("(I1) of stage 1 is doubled"));
}

TEST(Verify, NamesAnImpossibleAction) {
  for (const PipelineAction wrong : {PipelineAction{F, 2, 0}, {F, -1, 0}, {F, 0, 1}, {F, 0, -1}}) {
    PipelineSchedule schedule = small();
    schedule.actions[0].push_back(wrong);
    EXPECT_THAT(only_problem(schedule), HasSubstr("is impossible"));
  }
  PipelineSchedule schedule = small();
  schedule.actions[1].push_back({Kind::SendForward, 0});
  EXPECT_THAT(only_problem(schedule),
              HasSubstr("(SF0) of stage 1 comes too early: a neighbouring stage"));
}

TEST(Verify, WantsForwardBeforeInputGradientBeforeWeightGradient) {
  const PipelineShape one{1, 1, 1};
  const auto problem = [&](const std::vector<PipelineAction>& list) {
    return only_problem(complete("own", one, {list}));
  };
  EXPECT_TRUE(verify(complete("own", one, {{{F, 0}, {I, 0}, {W, 0}}})).ok());
  EXPECT_THAT(problem({{I, 0}, {F, 0}, {W, 0}}), HasSubstr("(I0) of stage 0 comes too early: F0"));
  EXPECT_THAT(problem({{F, 0}, {W, 0}, {I, 0}}), HasSubstr("(W0) of stage 0 comes too early: I0"));
  EXPECT_THAT(problem({{B, 0}, {F, 0}}), HasSubstr("(B0) of stage 0 comes too early: F0"));
}

TEST(Verify, FollowsTheModelThroughTheChunksOfOneStage) {
  const PipelineShape shape{1, 1, 2, Placement::V};
  EXPECT_TRUE(verify(complete("own", shape, {{{F, 0, 0}, {F, 0, 1}, {B, 0, 1}, {B, 0, 0}}})).ok());
  EXPECT_THAT(only_problem(complete("own", shape, {{{F, 0, 1}, {F, 0, 0}, {B, 0, 1}, {B, 0, 0}}})),
              HasSubstr("(F0.1) of stage 0 comes too early: F0.0"));
  EXPECT_THAT(only_problem(complete("own", shape, {{{F, 0, 0}, {F, 0, 1}, {B, 0, 0}, {B, 0, 1}}})),
              HasSubstr("(B0.0) of stage 0 comes too early: I0.1"));
}

TEST(Verify, WantsSendsAndReceivesOfAnEdgeInTheSameOrder) {
  const PipelineShape shape{2, 2, 1};
  const PipelineSchedule schedule =
      complete("own", shape, {{{F, 0}, {F, 1}, {B, 0}, {B, 1}}, {{F, 1}, {F, 0}, {B, 0}, {B, 1}}});
  EXPECT_THAT(only_problem(schedule),
              HasSubstr("edge 0>1: action 1 (SF0) of stage 0 meets action 0 (RF1) of stage 1"));
}

TEST(Verify, RefusesMoreActivationsThanTheLimitAndSaysTheSmallest) {
  const PipelineSchedule schedule = one_f_one_b(4, 8);
  EXPECT_TRUE(verify(schedule, {4.0}).ok());
  EXPECT_THAT(only_problem(schedule, {3.0}),
              HasSubstr("stage 0 holds the activations of 4 at once. The smallest that works for "
                        "this order is 4"));
}

TEST(Verify, FindsTwoActionsThatWaitForEachOther) {
  // Stage 0 wants the gradient before it has sent the second input; stage 1 wants that input first.
  const PipelineSchedule schedule = complete(
      "own", {2, 2, 1}, {{{F, 0}, {B, 0}, {F, 1}, {B, 1}}, {{F, 0}, {F, 1}, {B, 0}, {B, 1}}});
  const Verdict verdict = verify(schedule);
  EXPECT_FALSE(verdict.deadlock_free);
  ASSERT_EQ(verdict.problems.size(), 1U);
  EXPECT_EQ(verdict.problems[0],
            "deadlock: action 2 (RB0) of stage 0 waits for action 5 (SB0) of stage 1; action 2 "
            "(RF1) of stage 1 waits for "
            "action 5 (SF1) of stage 0, which comes later than what its stage waits at. No number "
            "of slots helps: change "
            "the order.");
}

TEST(Verify, CountsSlotsAndReportsTheSmallestThatWorks) {
  PipelineSchedule schedule = one_f_one_b(3, 6);
  EXPECT_EQ(smallest_slots(schedule), 2);
  for (int& slots : schedule.slots) slots = 2;
  EXPECT_TRUE(verify(schedule).ok());
  for (int& slots : schedule.slots) slots = 1;
  const std::string problem = only_problem(schedule);
  EXPECT_THAT(problem, HasSubstr("waits for a slot that is free after"));
  EXPECT_THAT(problem, HasSubstr("2 slots on every edge let it finish."));
}

TEST(Verify, RefusesListsOrSlotsThatAreNotOnePerStageAndEdge) {
  PipelineSchedule schedule = small();
  schedule.slots.pop_back();
  EXPECT_THROW(verify(schedule), std::invalid_argument);
  schedule = small();
  schedule.actions.pop_back();
  EXPECT_THROW(verify(schedule), std::invalid_argument);
}

TEST(Schedule, GivesEachEdgeOneSlotMoreThanItsReceiverHolds) {
  const PipelineSchedule schedule = one_f_one_b(4, 8);  // stages hold 4, 3, 2, 1
  EXPECT_THAT(schedule.slots, ElementsAre(4, 5, 3, 4, 2, 3));
  EXPECT_EQ(edge_name(schedule.shape, 0), "0>1");
  EXPECT_EQ(edge_name(schedule.shape, 5), "3>2");
  EXPECT_THAT(one_f_one_b(4, 2).slots,
              ElementsAre(2, 2, 2, 2, 2, 2));  // never more than there are micro-batches
}

TEST(Schedule, PlacesTheFirstAndLastChunkOfAVOnStageZero) {
  const PipelineShape shape{3, 1, 2, Placement::V};
  for (int position = 0; position < 6; ++position)
    EXPECT_EQ(position_of(shape, place_of(shape, position)), position);
  EXPECT_EQ(place_of(shape, 0), (Place{0, 0}));
  EXPECT_EQ(place_of(shape, 2), (Place{2, 0}));
  EXPECT_EQ(place_of(shape, 3), (Place{2, 1}));
  EXPECT_EQ(place_of(shape, 5), (Place{0, 1}));
  EXPECT_TRUE(edge_is_local(shape, 4));
  EXPECT_FALSE(edge_is_local(shape, 2));
}

TEST(Schedule, SendsAndReceivesNameTheirEdge) {
  const PipelineShape shape{2, 1, 2};
  EXPECT_EQ(edge_of(shape, 1, {Kind::SendForward, 0, 0}),
            edge_of(shape, 0, {Kind::RecvForward, 0, 1}));
  EXPECT_EQ(edge_of(shape, 0, {Kind::SendBackward, 0, 1}),
            edge_of(shape, 1, {Kind::RecvBackward, 0, 0}));
  EXPECT_THROW(edge_of(shape, 0, {F, 0, 0}), std::invalid_argument);
  EXPECT_THROW(edge_of(shape, 0, {Kind::RecvForward, 0, 0}), std::invalid_argument);
  EXPECT_THROW(edge_of(shape, 1, {Kind::SendForward, 0, 1}), std::invalid_argument);
  EXPECT_THROW(edge_of(shape, 0, {Kind::SendForward, 0, 2}), std::invalid_argument);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Speed, LargePipelinesAreMadeAndProvenWithinASecond) {
  // Processor time: other work on the machine does not count.
  const auto seconds = [](const PipelineRequest& request) {
    const std::clock_t start = std::clock();
    EXPECT_TRUE(verify(make_pipeline(request)).ok());
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  EXPECT_LE(seconds({"interleaved", 64, 1024, 8, {}, {}}), 1.0);
  for (const std::string& name : pipeline_names()) {
    EXPECT_LE(seconds({name, 16, 128, 0, {}, {}}), name == "zb-auto" ? 0.05 : 0.01) << name;
  }
}
#endif

}  // namespace
}  // namespace tutti::schedule
