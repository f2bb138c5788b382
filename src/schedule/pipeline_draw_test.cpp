// Golden timelines: the exact order of every schedule on a small shape. A change here is a change
// of a schedule.
#include "schedule/pipeline_draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/pipeline.h"

namespace tutti::schedule {
namespace {

using testing::HasSubstr;

std::string timeline(const std::string& name, int stages, int microbatches, int width = 200) {
  const PipelineSchedule schedule = make_pipeline({name, stages, microbatches, 0, {}, {}});
  return "\n" +
         draw_text(schedule, simulate(schedule, even_times(schedule.shape, {1, 1, 1})), width);
}

TEST(Golden, Gpipe) {
  EXPECT_EQ(timeline("gpipe", 3, 3),
            "\n"
            "stage 0 |F0 F1 F2 ..................B0    B1    B2    |\n"
            "stage 1 |...F0 F1 F2 .........B0    B1    B2    ......|\n"
            "stage 2 |......F0 F1 F2 B0    B1    B2    ............|\n");
}

TEST(Golden, OneForwardOneBackward) {
  EXPECT_EQ(timeline("1f1b", 3, 4),
            "\n"
            "stage 0 |F0 F1 F2 ............B0    F3 B1    ...B2    ...B3    |\n"
            "stage 1 |...F0 F1 ......B0    F2 B1    F3 B2    ...B3    ......|\n"
            "stage 2 |......F0 B0    F1 B1    F2 B2    F3 B3    ............|\n");
}

TEST(Golden, Interleaved) {
  EXPECT_EQ(timeline("interleaved", 2, 4),
            "\n"
            "stage 0 |F0.0 F1.0 F0.1 F1.1 F2.0 .....B0.1      F3.0 B1.1      F2.1 B0.0      F3.1 "
            "B1.0      .....B2.1      .....B3.1      B2.0      B3.0      |\n"
            "stage 1 |.....F0.0 F1.0 F0.1 B0.1      F1.1 B1.1      F2.0 B0.0      F3.0 B1.0      "
            "F2.1 B2.1      F3.1 B3.1      B2.0      B3.0      ..........|\n");
}

TEST(Golden, InterleavedWithAnUnevenTurn) {
  EXPECT_EQ(timeline("interleaved", 2, 3),
            "\n"
            "stage 0 |F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 .....B0.1      .....B1.1      .....B2.1      "
            "B0.0      B1.0      B2.0      |\n"
            "stage 1 |.....F0.0 F1.0 F2.0 F0.1 B0.1      F1.1 B1.1      F2.1 B2.1      B0.0      "
            "B1.0      B2.0      ..........|\n");
}

TEST(Golden, ZbH1) {
  EXPECT_EQ(timeline("zb-h1", 3, 4),
            "\n"
            "stage 0 |F0 F1 F2 ......I0 W0 F3 I1 W1 I2 W2 I3 W3 |\n"
            "stage 1 |...F0 F1 ...I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 |\n"
            "stage 2 |......F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 |\n");
}

TEST(Golden, ZbH2) {
  EXPECT_EQ(timeline("zb-h2", 3, 6),
            "\n"
            "stage 0 |F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 ......|\n"
            "stage 1 |...F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 ...|\n"
            "stage 2 |......F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5 |\n");
}

TEST(Golden, ZbV) {
  EXPECT_EQ(timeline("zb-v", 2, 4),
            "\n"
            "stage 0 |F0.0 F1.0 F2.0 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 F3.0 I0.0 W0.0 F2.1 I2.1 W2.1 "
            "I1.0 W1.0 F3.1 I3.1 W3.1 I2.0 W2.0 I3.0 W3.0 .....|\n"
            "stage 1 |.....F0.0 F0.1 F1.0 F1.1 I0.1 W0.1 F2.0 I0.0 W0.0 F2.1 I1.1 W1.1 F3.0 I1.0 "
            "W1.0 F3.1 I2.1 W2.1 I2.0 I3.1 I3.0 W2.0 W3.1 W3.0 |\n");
}

TEST(Golden, ZbAuto) {
  EXPECT_EQ(timeline("zb-auto", 3, 4),
            "\n"
            "stage 0 |F0 F1 F2 ......I0 W0 F3 I1 W1 I2 W2 I3 W3 |\n"
            "stage 1 |...F0 F1 ...I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 |\n"
            "stage 2 |......F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 |\n");
}

TEST(Draw, FallsBackToOneLetterPerColumnWhereLabelsDoNotFit) {
  EXPECT_EQ(timeline("zb-h1", 2, 4, 20),
            "\n"
            "stage 0 |FFF..IWWFIIWFFIWWIWW|\n"
            "stage 1 |..FIIFIIWFFIWWFIIWWW|\n");
}

TEST(Draw, SvgHoldsEveryActionOnceAndTheBubble) {
  const PipelineSchedule schedule = make_pipeline({"1f1b", 2, 4, 0, {}, {}});
  const Simulation simulation = simulate(schedule, even_times(schedule.shape, {1, 1, 1}));
  const std::string svg = draw_svg({{schedule, simulation}});
  EXPECT_EQ(svg.rfind("<svg xmlns=", 0), 0U);
  EXPECT_THAT(svg, HasSubstr("1f1b: 2 stages, 4 micro-batches; bubble 20.0 % by stage span"));
  std::size_t actions = 0;
  for (std::size_t at = svg.find("stroke-width"); at != std::string::npos;
       at = svg.find("stroke-width", at + 1))
    ++actions;
  EXPECT_EQ(actions, 16U);  // 2 stages x 4 micro-batches x forward and backward
  EXPECT_THAT(svg, HasSubstr("</svg>\n"));
}

TEST(Draw, SvgPanelsShareOneScale) {
  const PipelineSchedule schedule = make_pipeline({"1f1b", 1, 1, 0, {}, {}});
  const Simulation fast = simulate(schedule, even_times(schedule.shape, {1, 1, 1}));
  const Simulation slow = simulate(schedule, even_times(schedule.shape, {2, 2, 2}));
  const std::string svg = draw_svg({{schedule, fast}, {schedule, slow}});
  EXPECT_THAT(svg, HasSubstr("width=\"500.00\" height=\"20\" fill=\"#ddd\""));
  EXPECT_THAT(svg, HasSubstr("width=\"1000.00\" height=\"20\" fill=\"#ddd\""));
}

TEST(Draw, SaysSoWhenNoTimePasses) {
  const PipelineSchedule schedule = make_pipeline({"gpipe", 2, 2, 0, {}, {}});
  EXPECT_EQ(draw_text(schedule, simulate(schedule, even_times(schedule.shape, {0, 0, 0}))),
            "no time passes: nothing to draw\n");
}

}  // namespace
}  // namespace tutti::schedule
