// Start-up's parts: they add up, and the launcher's time is one of them.
#include "train/startup.h"

#include <gmock/gmock.h>

namespace tutti::train {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StartupTimes, PartsFollowEachOtherFromTheBeginningOfTheProcess) {
  StartupTimes times;
  times.done("load");
  const double loaded = times.together().count();
  EXPECT_NEAR(loaded, core::since_process_start().count(), 0.5);
  times.done("first step");
  EXPECT_GE(times.together().count(), loaded);
  EXPECT_THAT(times.table(), testing::ContainsRegex("load.* ms\n +first step.* ms\n +together"));
}

TEST(StartupTimes, CountsTheLauncherFromItsOwnBeginning) {
  const core::Seconds began = core::now();
  StartupTimes times(began);
  times.done("load");
  const double alone = times.together().count();
  times.launched(began - core::Seconds(2.5));
  EXPECT_NEAR(times.together().count(), alone + 2.5, 1e-9);
  EXPECT_THAT(times.table(), testing::ContainsRegex("start-up:\n +spawn +2500.0 ms\n +load"));
}

TEST(StartupTimes, IgnoresALauncherThatBeganLaterOrNever) {
  const core::Seconds began = core::now();
  for (const core::Seconds launcher : {began + core::Seconds(1), core::Seconds(0)}) {
    StartupTimes times(began);
    times.launched(launcher);
    times.done("load");
    EXPECT_THAT(times.table(), Not(HasSubstr("spawn")));
  }
}

}  // namespace
}  // namespace tutti::train
