// The folk rule, checked for every order.
#include "schedule/pipeline_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tutti::schedule {
namespace {

using testing::HasSubstr;

CompareQuestion four_stages() {
  return {4, 8, std::vector<ActionTimes>(4, ActionTimes{1, 1, 1}), 0};
}

TEST(CompareOrders, TheRuleIsFalseForPlainOrdersAndTrueForInterleavedAndZeroBubble) {
  std::map<std::string, ComparedOrder> by_name;
  for (const ComparedOrder& order : compare_orders(four_stages())) {
    by_name[order.name + std::to_string(order.chunks)] = order;
  }
  ASSERT_EQ(by_name.size(), 8U);
  EXPECT_NEAR(by_name["1f1b1"].bubble_at_2p, 3.0 / 11, 1e-12);
  EXPECT_NEAR(by_name["1f1b1"].bubble_at_4p, 3.0 / 19, 1e-12);
  EXPECT_NEAR(by_name["interleaved4"].bubble_at_2p, 0.75 / 8.75, 1e-12);
  EXPECT_FALSE(by_name["gpipe1"].rule_holds());
  EXPECT_FALSE(by_name["1f1b1"].rule_holds());
  EXPECT_FALSE(by_name["interleaved2"].rule_holds());  // 15.8 % at 2p
  EXPECT_TRUE(by_name["interleaved4"].rule_holds());
  EXPECT_TRUE(by_name["zb-h2"
                      "1"]
                  .rule_holds());
  EXPECT_TRUE(by_name["zb-v2"].rule_holds());
  EXPECT_EQ(by_name["gpipe1"].peak, 8);
  EXPECT_EQ(by_name["1f1b1"].peak, 4);
}

TEST(CompareOrders, TheTableSaysTheVerdictInWords) {
  const std::string text = comparison_text(four_stages(), compare_orders(four_stages()));
  EXPECT_THAT(text,
              HasSubstr("1f1b                 4    27.3 %    27.3 %    27.3 %    15.8 %  no\n"));
  EXPECT_THAT(text, HasSubstr("interleaved x2"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "is false for plain 1f1b (27 % at m = 8, 16 % at m = 16) and true for interleaved x4"));
}

}  // namespace
}  // namespace tutti::schedule
