// Layouts as JSON and as text; what is refused, and with which words.
#include "mesh/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tutti::mesh {
namespace {

using core::Problem;
using testing::HasSubstr;

std::string only_problem(const std::vector<Problem>& problems) {
  EXPECT_EQ(problems.size(), 1U);
  return problems.empty() ? "" : problems.front().text;
}

Layout parsed(std::string_view text) {
  std::vector<Problem> problems;
  const Layout layout = parse_layout(text, Layout{.zero = 0, .micro = 4}, problems);
  EXPECT_TRUE(problems.empty()) << only_problem(problems);
  return layout;
}

std::string refused(std::string_view text) {
  std::vector<Problem> problems;
  parse_layout(text, Layout{}, problems);
  return only_problem(problems);
}

std::string refused_json(const char* key, const core::Json& value) {
  core::Json json = to_json(Layout{});
  if (value.is_null()) {
    json.erase(key);
  } else {
    json[key] = value;
  }
  try {
    layout_from_json(json);
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Layout, SurvivesItsJson) {
  Layout layout{.zero = 3,
                .zero_shard = 2,
                .micro = 7,
                .share_pages = false,
                .recompute = "full",
                .sequence = false};
  layout.sizes = {{Axis::Dp, 6}, {Axis::Tp, 2}, {Axis::Pp, 3}, {Axis::Cp, 4}, {Axis::Ep, 12}};
  layout.order = {Axis::Dp, Axis::Pp, Axis::Tp, Axis::Cp};
  EXPECT_EQ(layout_from_json(core::Json::parse(to_json(layout).dump())), layout);
}

TEST(Layout, JsonErrorsNameTheKey) {
  EXPECT_THAT(refused_json("tp", nullptr), HasSubstr("\"tp\" is missing"));
  EXPECT_THAT(refused_json("cp", 0), HasSubstr("\"cp\" = 0"));
  EXPECT_THAT(refused_json("dp", 2.5), HasSubstr("\"dp\" = 2.5"));
  EXPECT_THAT(refused_json("dp", 1ULL << 40), HasSubstr("\"dp\""));
  EXPECT_THAT(refused_json("zero", 4), HasSubstr("\"zero\" = 4"));
  EXPECT_THAT(refused_json("recompute", "all"), HasSubstr("\"recompute\" is \"all\""));
  EXPECT_THAT(refused_json("recompute", 1), HasSubstr("\"recompute\" is 1"));
  EXPECT_THAT(refused_json("share_pages", "no"), HasSubstr("\"share_pages\" is \"no\""));
  EXPECT_THAT(refused_json("sequence", 0), HasSubstr("\"sequence\" is 0"));
  EXPECT_THAT(refused_json("order", {"dp", "tp", "pp"}), HasSubstr("\"order\" has 3 axes"));
  EXPECT_THAT(refused_json("order", {"dp", "tp", "pp", "dp"}), HasSubstr("\"dp\""));
  EXPECT_THAT(refused_json("order", {"dp", "tp", "pp", "ep"}), HasSubstr("\"ep\""));
  EXPECT_THROW(layout_from_json(core::Json::array()), core::ConfigError);
}

TEST(Layout, AxesThatAreGivenSayHowManyRanksAreMeant) {
  std::vector<core::Problem> problems;
  const auto meant = [&](const char* text) {
    return parse_layout(text, {}, problems).ranks_or(/*otherwise=*/8);
  };
  EXPECT_EQ(meant("zero=1"), 8);
  EXPECT_EQ(meant("dp=3"), 3);
  EXPECT_EQ(meant("tp=4"), 4);
  EXPECT_EQ(meant("tp=2,dp=3"), 6);
}

TEST(Layout, RanksAreTheProductWithoutEp) {
  Layout layout;
  layout.sizes = {{Axis::Dp, 4}, {Axis::Tp, 3}, {Axis::Pp, 2}, {Axis::Cp, 5}, {Axis::Ep, 2}};
  EXPECT_EQ(layout.ranks(), 120);
  for (auto& [axis, size] : layout.sizes) size = 1'000'000;
  EXPECT_EQ(layout.ranks(), std::numeric_limits<int>::max());  // not an overflow
}

TEST(Layout, DescribesWhatIsNotOne) {
  EXPECT_EQ(describe(Layout{.zero = 1, .micro = 4}), "dp1 zero1 micro4");
  Layout layout = parsed("tp=2,dp=3,zero=2");
  EXPECT_EQ(describe(layout), "dp3 tp2 zero2 micro4");
  EXPECT_EQ(describe(parsed("dp=4,zero=2,zero_shard=2")), "dp4 zero2 shards2 micro4");
  layout.order = {Axis::Tp, Axis::Pp, Axis::Dp, Axis::Cp};
  EXPECT_EQ(describe(layout), "dp3 tp2 zero2 micro4 order-tp-pp-dp-cp");
}

TEST(ParseLayout, TakesWhatIsNamedAndOtherwiseTheBase) {
  const Layout layout = parsed("tp=2,zero=3");
  EXPECT_EQ(layout.size(Axis::Tp), 2);
  EXPECT_EQ(layout.size(Axis::Pp), 1);
  EXPECT_EQ(layout.size(Axis::Dp), 0) << "dp fills what is left";
  EXPECT_EQ(layout.zero, 3);
  EXPECT_EQ(layout.micro, 4) << "from the base";
  EXPECT_EQ(parsed("dp=2,micro=1").zero, 0) << "from the base";
}

TEST(ParseLayout, SaysWhatIsWrong) {
  EXPECT_THAT(refused("zerro=1"), HasSubstr("did you mean \"zero\"?"));
  EXPECT_THAT(refused("dp=2x"), HasSubstr("dp = \"2x\" must be a whole number from 1 to"));
  EXPECT_THAT(refused("dp=0"), HasSubstr("dp = \"0\""));
  EXPECT_THAT(refused("zero=4"), HasSubstr("from 0 to 3"));
  EXPECT_THAT(refused("dp=2,dp=3"), HasSubstr("dp is given twice"));
  EXPECT_THAT(refused("dp"), HasSubstr("\"dp\" is not key=value"));
  EXPECT_THAT(refused(""), HasSubstr("is not key=value"));
  EXPECT_THAT(refused("dp=2,"), HasSubstr("\"\" is not key=value"));
  std::vector<Problem> problems;
  parse_layout("dp=x,tp=y", Layout{}, problems);
  EXPECT_EQ(problems.size(), 2U) << "all at once";
}

TEST(FillDp, TakesWhatTheOtherAxesLeave) {
  std::vector<Problem> problems;
  EXPECT_EQ(fill_dp(parsed("tp=2,pp=3"), 12, problems).size(Axis::Dp), 2);
  EXPECT_EQ(fill_dp(parsed("dp=4"), 4, problems).size(Axis::Dp), 4);
  EXPECT_EQ(fill_dp(parsed("zero=1"), 5, problems).size(Axis::Dp), 5);
  EXPECT_TRUE(problems.empty());
}

TEST(FillDp, RefusesWhatDoesNotDivide) {
  const auto refused_for = [](std::string_view text, int ranks) {
    std::vector<Problem> problems;
    fill_dp(parsed(text), ranks, problems);
    return only_problem(problems);
  };
  EXPECT_THAT(refused_for("tp=3", 7), HasSubstr("Use 6 or 9 ranks"));
  EXPECT_THAT(refused_for("tp=3", 2), HasSubstr("Use 3 ranks"));
  EXPECT_THAT(refused_for("dp=3", 4), HasSubstr("dp = 3 contradicts 4 ranks"));
  EXPECT_THAT(refused_for("dp=3,tp=2", 4), HasSubstr("with tp = 2 dp must be 2"));
  EXPECT_THAT(refused_for("tp=2", 0), HasSubstr("at least 1"));
}

}  // namespace
}  // namespace tutti::mesh
