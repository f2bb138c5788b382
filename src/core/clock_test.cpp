// Deadlines, and the age of this process.
#include "core/clock.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

TEST(Deadline, PassesAfterItsLength) {
  const Deadline past(Seconds(0)), future(Seconds(1000));
  EXPECT_TRUE(past.passed());
  EXPECT_FALSE(future.passed());
  EXPECT_GT(future.left(), Seconds(900));
  EXPECT_LE(future.left(), Seconds(1000));
  EXPECT_EQ(future.length(), Seconds(1000));
}

TEST(Stopwatch, OnlyRuns) {
  const Stopwatch watch;
  const Seconds first = watch.elapsed();
  EXPECT_GE(first, Seconds(0));
  EXPECT_GE(watch.elapsed(), first);
}

TEST(SinceProcessStart, GrowsAsTheClockDoes) {
  const Seconds clock_before = now();
  const Seconds before = since_process_start();
  const Seconds clock_after = now();  // reading /proc takes its time on a busy machine
  while (now() - clock_after < Seconds(0.02)) {
  }
  const Seconds grown = since_process_start() - before;
  EXPECT_GE(before, Seconds(-0.02));  // /proc counts in hundredths
  EXPECT_LT(before, Seconds(600));    // this test has not run for ten minutes
  EXPECT_GE(grown, Seconds(0.019));
  EXPECT_LE(grown, now() - clock_before);
}

}  // namespace
}  // namespace tutti::core
