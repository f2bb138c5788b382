// The nearest known name.
#include "core/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::core {
namespace {

const std::vector<std::string> kKeys = {"hidden", "heads", "layers", "kv_heads"};

TEST(Nearest, FindsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(nearest("hiden", kKeys), "hidden");
  EXPECT_EQ(nearest("layerss", kKeys), "layers");
  EXPECT_EQ(nearest("leads", kKeys), "heads");
  EXPECT_EQ(nearest("heads", kKeys), "heads");
}

TEST(Nearest, SuggestsNothingBeyondHalfOfTheName) {
  const std::vector<std::string> one = {"abcd"};
  EXPECT_EQ(nearest("abxy", one), "abcd");  // two of four
  EXPECT_EQ(nearest("axyz", one), "");      // three of four
  EXPECT_EQ(nearest("", one), "");
  EXPECT_EQ(nearest("abcd", {}), "");
}

TEST(Nearest, PrefersTheFirstOfEquallyNear) {
  const std::vector<std::string> two = {"cat", "car"};
  EXPECT_EQ(nearest("caz", two), "cat");
}

}  // namespace
}  // namespace tutti::core
