#include "core/lines.h"

#include <gmock/gmock.h>

namespace tutti::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;

TEST(SplitLines, NeedsNoNewlineAtTheEnd) {
  EXPECT_THAT(split_lines("a\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_THAT(split_lines("a\n"), ElementsAre("a"));
  EXPECT_THAT(split_lines(""), IsEmpty());
}

TEST(FirstDifference, IsNoneBetweenEqualLists) {
  EXPECT_EQ(first_difference({}, {}), std::nullopt);
  EXPECT_EQ(first_difference({"a", "b"}, {"a", "b"}), std::nullopt);
}

TEST(FirstDifference, NamesBothSides) {
  EXPECT_THAT(first_difference({"a", "b", "c"}, {"a", "x", "y"}), Optional(Pair("b", "x")));
}

TEST(FirstDifference, NamesWhatOneSideLacks) {
  EXPECT_THAT(first_difference({"a", "b"}, {"a"}), Optional(Pair("b", "nothing")));
  EXPECT_THAT(first_difference({}, {"a"}), Optional(Pair("nothing", "a")));
}

}  // namespace
}  // namespace tutti::core
