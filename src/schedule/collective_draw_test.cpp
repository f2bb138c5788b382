// Golden text of small collectives.
#include "schedule/collective_draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::schedule {
namespace {

using testing::HasSubstr;

TEST(CollectiveDraw, RingAllReduceOfThreeRanks) {
  EXPECT_EQ(step_table(generate({.ranks = 3, .elements = 6})),
            "step  rank 0          rank 1          rank 2\n"
            "   0  >1 4:6, +2 2:4  >2 0:2, +0 4:6  >0 2:4, +1 0:2\n"
            "   1  >1 2:4, +2 0:2  >2 4:6, +0 2:4  >0 0:2, +1 4:6\n"
            "   2  >1 0:2, <2 4:6  >2 2:4, <0 0:2  >0 4:6, <1 2:4\n"
            "   3  >1 4:6, <2 2:4  >2 0:2, <0 4:6  >0 2:4, <1 0:2\n");
}

TEST(CollectiveDraw, DirectAllReduceOfTwoRanks) {
  EXPECT_EQ(step_table(generate({.algorithm = Algorithm::Direct, .ranks = 2, .elements = 4})),
            "step  rank 0       rank 1\n"
            "   0  !1           !1\n"
            "   1  ?0-1         ?0-1\n"
            "   2  sum 0-1 0:2  sum 0-1 2:4\n"
            "   3  put 0-1 0:2  put 0-1 2:4\n"
            "   4  !2           !2\n"
            "   5  ?0-1         ?0-1\n");
}

TEST(CollectiveDraw, DoubleTreeOfThreeRanks) {
  EXPECT_EQ(step_table(generate({.algorithm = Algorithm::Tree, .ranks = 3, .elements = 4})),
            "step  rank 0                  rank 1                  rank 2\n"
            "   0  >1 0:2, +2 2:4          +0 0:2, >0 2:4          >0 2:4, >1 0:2\n"
            "   1  +1 2:4                  +2 0:2\n"
            "   2  <1 0:2, >2 2:4, >1 2:4  >0 0:2, >2 0:2, <0 2:4  <1 0:2, <0 2:4\n");
}

TEST(CollectiveDraw, WhatDoesNotFitIsCounted) {
  const CollectiveSchedule schedule = generate({.ranks = 4096, .elements = 8192});
  EXPECT_THAT(step_table(schedule, 2, 3), HasSubstr("   2  >1 8186:8188, +4095 8184:8186"));
  EXPECT_THAT(step_table(schedule, 2, 3), HasSubstr("(4094 more ranks, 8187 more steps)"));
  EXPECT_THAT(step_svg(schedule, 2, 3), HasSubstr("4094 more ranks, 8187 more steps"));
}

TEST(CollectiveDraw, SharesWithoutElementsAreLeftOut) {
  EXPECT_EQ(step_table(generate({.operation = Operation::AllGather, .ranks = 2, .elements = 1})),
            "step  rank 0  rank 1\n"
            "   0  >1 0:1  <0 0:1\n");
}

TEST(CollectiveDraw, TheSvgHasAnArrowPerMessageInTheColourOfWhatTheReceiverDoes) {
  const std::string svg = step_svg(generate({.ranks = 3, .elements = 6}));
  const auto count_of = [&](const std::string& word) {
    std::size_t count = 0;
    for (std::size_t at = svg.find(word); at != std::string::npos; at = svg.find(word, at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(count_of("class=\"add\""), 6u);
  EXPECT_EQ(count_of("class=\"move\""), 6u);
  EXPECT_EQ(count_of("<svg"), 1u);
  EXPECT_EQ(count_of("</svg>"), 1u);
}

}  // namespace
}  // namespace tutti::schedule
