// Closed forms against the simulation of the generated actions, everywhere where they claim to
// hold.
#include "schedule/pipeline_cost.h"

#include <gtest/gtest.h>

#include <map>

#include "schedule/pipeline.h"
#include "schedule/pipeline_simulate.h"

namespace tutti::schedule {
namespace {

TEST(PipelineCost, EqualsTheSimulationWhereverItClaimsToHold) {
  std::map<std::string, int> compared;
  for (const std::string& name : pipeline_names()) {
    for (const int stages : {1, 2, 3, 4, 8, 16, 32}) {
      for (const int microbatches : {1, 2, 3, 5, 8, 12, 16, 32, 64, 65}) {
        for (const int chunks : {0, 3}) {
          if (chunks == 3 && name != "interleaved") continue;
          for (const ActionTimes& stage : {ActionTimes{1, 1, 1}, ActionTimes{3, 2.5, 2},
                                           ActionTimes{1, 2, 0.5}, ActionTimes{1, 1, 3}}) {
            for (const double transfer : {0.0, 0.1, 0.4, 2.0}) {
              PipelineRequest request{name, stages, microbatches, chunks, {}, {}};
              const PipelineShape shape = pipeline_shape(request);
              const auto cost = pipeline_cost(name, {shape, stage, transfer});
              if (!cost) continue;
              SCOPED_TRACE(testing::Message() << name << " p " << stages << " m " << microbatches
                                              << " v " << shape.chunks << " F " << stage.forward
                                              << " B " << stage.backward_input << " W "
                                              << stage.backward_weight << " c " << transfer);
              const PipelineSchedule schedule = make_pipeline(request);
              const Simulation result = simulate(schedule, even_times(shape, stage, transfer));
              ASSERT_NEAR(result.bubble_time(), cost->bubble_time, 1e-9 * result.makespan);
              ASSERT_DOUBLE_EQ(peak_activations(schedule), cost->peak);
              ++compared[name];
            }
          }
        }
      }
    }
  }
  for (const std::string& name : pipeline_names()) {
    if (name == "zb-auto") continue;
    EXPECT_GT(compared[name], 10) << name;
  }
}

TEST(PipelineCost, SaysNothingOutsideItsRanges) {
  const ActionTimes even{1, 1, 1};
  EXPECT_FALSE(pipeline_cost("interleaved", {{4, 6, 2}, even, 0}));         // 4 does not divide 6
  EXPECT_FALSE(pipeline_cost("zb-h1", {{4, 8, 1}, {1, 1, 1.5}, 0}));        // W > F
  EXPECT_FALSE(pipeline_cost("zb-h2", {{4, 7, 1}, even, 0}));               // m < 2p
  EXPECT_FALSE(pipeline_cost("zb-v", {{4, 8, 2, Placement::V}, even, 1}));  // transfers
  EXPECT_FALSE(pipeline_cost("zb-auto", {{4, 8, 1}, even, 0}));
  EXPECT_FALSE(pipeline_cost("chimera", {{4, 8, 1}, even, 0}));
}

TEST(PipelineCost, TheFolkRuleIsFalseForOneForwardOneBackward) {
  // p = 4: (p-1)/(m+p-1) is 27 % at m = 2p and 16 % at m = 4p, not under 10 %.
  const auto bubble = [](const std::string& name, int microbatches, int chunks) {
    PipelineRequest request{name, 4, microbatches, chunks, {}, {}};
    return simulate(make_pipeline(request), even_times(pipeline_shape(request), {1, 1, 1})).bubble;
  };
  EXPECT_NEAR(bubble("1f1b", 8, 1), 3.0 / 11, 1e-12);
  EXPECT_NEAR(bubble("1f1b", 16, 1), 3.0 / 19, 1e-12);
  EXPECT_LT(bubble("interleaved", 8, 4), 0.10);
  EXPECT_LT(bubble("zb-v", 8, 2), 0.10);
}

}  // namespace
}  // namespace tutti::schedule
