// Whose fault it is decides the exit status; a text holds all problems.
#include "core/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tutti::core {
namespace {

TEST(Error, EachKindHasItsExitStatus) {
  EXPECT_EQ(ConfigError("x").exit_status(), 2);
  EXPECT_EQ(RunError("x").exit_status(), 1);
  EXPECT_EQ(PeerError(3, "x").exit_status(), 1);
  EXPECT_EQ(PeerError(3, "x").rank(), 3);
  EXPECT_EQ(Interrupted("x").exit_status(), 130);
}

TEST(Error, AConfigErrorListsEveryProblemOnItsOwnLine) {
  try {
    throw_if_any({{"first"}, {"second"}});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "first\nsecond");
    EXPECT_EQ(error.problems(), (std::vector<Problem>{{"first"}, {"second"}}));
  }
}

TEST(Error, NoProblemsThrowNothing) { EXPECT_NO_THROW(throw_if_any({})); }

TEST(Error, ThrowErrnoSaysWhatAndWhy) {
  errno = ENOSPC;
  try {
    throw_errno("write of plan.json");
    FAIL() << "nothing was thrown";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "write of plan.json failed: No space left on device");
  }
}

TEST(CheckDeathTest, ABrokenConditionAbortsWithPlaceAndText) {
  const int two = 2;
  EXPECT_DEATH(TUTTI_CHECK(two == 3, "two is {}", two),
               "a bug in tutti: two == 3 .*error_test.cpp:.*: two is 2");
  TUTTI_CHECK(two == 2);
}

}  // namespace
}  // namespace tutti::core
