// What the search must find: the published figures to their last digit, and orders worked out by
// hand.
#include "schedule/zero_bubble_auto.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "schedule/pipeline_draw.h"
#include "schedule/pipeline_simulate.h"
#include "schedule/pipeline_verify.h"

namespace tutti::schedule {
namespace {

TEST(ZbAuto, MeetsThePublishedSearchToFourDigits) {
  struct Published {
    int stages, microbatches;
    ActionTimes stage;
    double transfer, memory, bubble;
  };
  for (const Published& row : {Published{8, 24, {18.522, 18.086, 9.337}, 0.601, 8, 0.1585},
                               {8, 24, {18.522, 18.086, 9.337}, 0.601, 16, 0.0433},
                               {8, 32, {18.513, 18.086, 9.331}, 0.626, 16, 0.0039},
                               {8, 64, {29.935, 29.621, 19.388}, 0.535, 16, 0.0010},
                               {32, 96, {10.419, 10.207, 7.715}, 0.408, 64, 0.0038}}) {
    SCOPED_TRACE(testing::Message()
                 << row.stages << " stages, " << row.microbatches << " micro-batches");
    const PipelineTimes times =
        even_times({row.stages, row.microbatches, 1}, row.stage, row.transfer);
    const PipelineSchedule schedule = zb_auto(row.stages, row.microbatches, times, {row.memory});
    EXPECT_LE(simulate(schedule, times).bubble, row.bubble + 0.5e-4);
    EXPECT_LE(peak_activations(schedule), row.memory);
  }
}

std::string timeline(int stages, int microbatches, const PipelineTimes& times,
                     const SearchLimits& limits) {
  const PipelineSchedule schedule = zb_auto(stages, microbatches, times, limits);
  EXPECT_TRUE(verify(schedule, {limits.memory}).ok());
  return "\n" + draw_text(schedule, simulate(schedule, times), 200);
}

TEST(ZbAuto, GoldenWithRoomForTwiceTheStages) {
  EXPECT_EQ(timeline(3, 6, even_times({3, 6, 1}, {2, 2, 1}), {6}),
            "\n"
            "stage 0 |F0    F1    F2    F3    F4    I0    F5    I1    W0 W1 I2    W2 ...I3    W3 "
            "...I4    W4 ...I5    W5 ...|\n"
            "stage 1 |......F0    F1    F2    I0    F3    I1    F4    I2    F5    I3    W0 W1 I4   "
            " W2 W3 I5    W4 W5 ......|\n"
            "stage 2 |............F0    I0    F1    I1    F2    I2    F3    I3    F4    I4    F5   "
            " I5    W0 W1 W2 W3 W4 W5 |\n");
}

TEST(ZbAuto, GoldenWithAnUnevenStage) {
  const PipelineTimes times = stage_times({3, 5, 1}, {{1, 1, 1}, {2, 2, 2}, {1, 1, 1}}, 1);
  EXPECT_EQ(timeline(3, 5, times, {4}),
            "\n"
            "stage 0 |F0 F1 F2 F3 .....................I0 W0 F4 ...I1 W1 ............I2 W2 I3 W3 "
            "I4 W4 ...............|\n"
            "stage 1 |......F0    F1    F2    I0    F3    I1    W0    F4    I2    I3    I4    W1   "
            " W2    W3    W4    |\n"
            "stage 2 |...............F0 I0 F1 I1 F2 I2 W0 W1 F3 I3 W2 W3 ......F4 I4 W4 "
            "..............................|\n");
}

TEST(ZbAuto, GoldenWithLessMemoryThanStages) {
  EXPECT_EQ(timeline(4, 6, even_times({4, 6, 1}, {1, 1, 1}), {2}),
            "\n"
            "stage 0 |F0 F1 ...............I0 W0 F2 .........I1 W1 F3 .........I2 W2 F4 "
            ".........I3 W3 F5 .........I4 W4 ............I5 W5 |\n"
            "stage 1 |...F0 ............I0 F1 W0 .........I1 F2 W1 .........I2 F3 W2 .........I3 "
            "F4 W3 .........I4 F5 W4 .........I5 W5 ...|\n"
            "stage 2 |......F0 ......I0 W0 ...F1 ......I1 W1 ...F2 ......I2 W2 ...F3 ......I3 W3 "
            "...F4 ......I4 W4 ...F5 ......I5 W5 ......|\n"
            "stage 3 |.........F0 I0 W0 .........F1 I1 W1 .........F2 I2 W2 .........F3 I3 W3 "
            ".........F4 I4 W4 .........F5 I5 W5 .........|\n");
}

TEST(ZbAuto, HoldsAllInFullWhereNothingIsFreedEarly) {
  const PipelineTimes times = even_times({8, 32, 1}, {18.513, 18.086, 9.331}, 0.626);
  const PipelineSchedule strict = zb_auto(8, 32, times, {16, 1});
  const PipelineSchedule loose = zb_auto(8, 32, times, {16, kKeptForWeights});
  EXPECT_EQ(strict.kept_for_weights, 1);
  for (int stage = 0; stage < 8; ++stage) EXPECT_LE(peak_inflight(strict.actions[stage], 0), 16);
  EXPECT_GT(peak_inflight(loose.actions[7], 0), 16);  // the design note proves that it must
  EXPECT_LT(simulate(loose, times).bubble, simulate(strict, times).bubble);
}

TEST(ZbAuto, MoreMemoryIsNeverWorse) {
  const PipelineTimes times = even_times({6, 20, 1}, {3, 2.5, 2}, 0.2);
  double last = 1;
  for (int memory = 1; memory <= 14; ++memory) {
    const double bubble = simulate(zb_auto(6, 20, times, {double(memory)}), times).bubble;
    EXPECT_LE(bubble, last + 1e-9) << memory;
    last = bubble;
  }
  EXPECT_LT(last, 0.01);
}

TEST(ZbAuto, RefusesWhatItCannotUse) {
  const PipelineTimes times = even_times({2, 2, 1}, {1, 1, 1});
  EXPECT_THROW(zb_auto(2, 2, times, {0.9}), std::invalid_argument);
  EXPECT_THROW(zb_auto(2, 2, times, {2, 1.1}), std::invalid_argument);
  EXPECT_THROW(zb_auto(2, 2, times, {2, -0.1}), std::invalid_argument);
  EXPECT_THROW(zb_auto(3, 2, times, {2}), std::invalid_argument);
  EXPECT_THROW(zb_auto(0, 2, times, {2}), std::invalid_argument);
  PipelineTimes negative = times;
  negative.positions[1].backward_weight = -1;
  EXPECT_THROW(zb_auto(2, 2, negative, {2}), std::invalid_argument);
}

}  // namespace
}  // namespace tutti::schedule
