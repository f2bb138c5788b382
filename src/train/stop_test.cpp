// The wish to stop: signals that come early, twice, or when the run is already ending.
#include "train/stop.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tutti::train {
namespace {

TEST(StopSignal, IsAskedForBySigintAndSigterm) {
  for (const int signal : {SIGINT, SIGTERM}) {
    StopSignal stop;
    EXPECT_FALSE(stop.requested());
    std::raise(signal);
    EXPECT_TRUE(stop.requested());
    EXPECT_TRUE(stop.requested()) << "once asked for, it stays";
  }
}

// Another rank's signal has ended the run; this rank's own comes after the last look.
TEST(StopSignal, OneThatComesAfterTheLastLookDoesNotKillTheProcess) {
  EXPECT_EXIT(
      {
        {
          StopSignal stop;
          std::raise(SIGINT);
        }
        std::_Exit(130);
      },
      testing::ExitedWithCode(130), "");
}

TEST(StopSignal, AfterwardsASignalKillsAgain) {
  EXPECT_EXIT(
      {
        { StopSignal stop; }
        std::raise(SIGINT);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace tutti::train
