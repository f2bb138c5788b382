// Names, the single-stage order, and the order in which chunks complete.
#include "schedule/pipeline_action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace tutti::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PipelineAction, NamesSayKindMicrobatchAndChunkWhereThereAreSeveral) {
  EXPECT_EQ(name({Kind::Forward, 0, 0}, 1), "F0");
  EXPECT_EQ(name({Kind::Backward, 3, 0}, 1), "B3");
  EXPECT_EQ(name({Kind::BackwardInput, 3, 1}, 2), "I3.1");
  EXPECT_EQ(name({Kind::SendBackward, 12, 0}, 2), "SB12.0");
}

TEST(PipelineAction, EveryKindHasItsOwnName) {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(Kind::RecvBackward); ++kind) {
    names.insert(name(static_cast<Kind>(kind)));
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"F", "I", "W", "B", "SF", "RF", "SB", "RB"}));
  EXPECT_THROW(name(static_cast<Kind>(8)), std::invalid_argument);
}

TEST(PipelineAction, OnlySendsAndReceivesKeepTheRankFree) {
  for (const Kind kind :
       {Kind::Forward, Kind::BackwardInput, Kind::BackwardWeight, Kind::Backward}) {
    EXPECT_TRUE(is_compute(kind)) << name(kind);
  }
  for (const Kind kind :
       {Kind::SendForward, Kind::RecvForward, Kind::SendBackward, Kind::RecvBackward}) {
    EXPECT_FALSE(is_compute(kind)) << name(kind);
  }
}

TEST(OneStage, RunsEachMicrobatchForwardAndBackwardBeforeTheNext) {
  EXPECT_THAT(one_stage(2),
              ElementsAre(PipelineAction{Kind::Forward, 0, 0},  //
                          PipelineAction{Kind::Backward, 0, 0}, PipelineAction{Kind::Forward, 1, 0},
                          PipelineAction{Kind::Backward, 1, 0}));
}

TEST(OneStage, RefusesAStepWithoutMicrobatches) {
  EXPECT_THROW(one_stage(0), std::invalid_argument);
  EXPECT_THROW(one_stage(-1), std::invalid_argument);
}

TEST(CompletionOrder, ListsChunksByTheirLastWeightGradient) {
  EXPECT_THAT(completion_order({{Kind::Forward, 0, 0},
                                {Kind::Forward, 0, 1},
                                {Kind::Backward, 0, 1},
                                {Kind::BackwardInput, 0, 0},
                                {Kind::BackwardWeight, 0, 0}}),
              ElementsAre(1, 0));
  // Chunk 1's first gradient comes first, its last one last; the input gradient of chunk 0 after it
  // does not count.
  EXPECT_THAT(completion_order({{Kind::Backward, 0, 1},
                                {Kind::BackwardWeight, 0, 0},
                                {Kind::BackwardWeight, 1, 0},
                                {Kind::Backward, 1, 1},
                                {Kind::BackwardInput, 2, 0}}),
              ElementsAre(0, 1));
}

TEST(CompletionOrder, IsEmptyWithoutWeightGradients) {
  EXPECT_THAT(completion_order({}), IsEmpty());
  EXPECT_THAT(completion_order({{Kind::Forward, 0, 0}, {Kind::BackwardInput, 0, 0}}), IsEmpty());
}

}  // namespace
}  // namespace tutti::schedule
