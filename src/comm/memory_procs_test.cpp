// Shared memory as users see it: what is reported, and what happens when there is no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "comm/world.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::check;
using testing::everybody;
using testing::SharedStore;
using testing::start_processes;

constexpr std::size_t kMiB = std::size_t{1} << 20;

WireUpOptions options_with(bool allow_staging) {
  WireUpOptions options;
  options.comm.table = R"({"rows":[]})";
  options.comm.timeout_s = 20;
  options.comm.allow_staging = allow_staging;
  options.arena_bytes = 8 * kMiB;
  return options;
}

void expect_well(std::vector<testing::Process> processes) {
  for (auto& process : processes) {
    EXPECT_EQ(process.result(core::Deadline(core::Seconds(40))), "");
  }
}

TEST(Memory, IsReportedWithItsFreeSpace) {
  SharedStore store;
  expect_well(start_processes(
      store, 2,
      [](World& world, int) {
        Communicator group = everybody(world);
        const MemoryReport before = world.memory();
        const auto block = group.allocate(3 * kMiB);
        const MemoryReport after = world.memory();
        check(after.segments == before.segments && after.reserved >= 8 * kMiB, "no new segment");
        check(after.used == before.used + 3 * kMiB, "used");
        check(after.largest_free + after.used <= after.reserved, "free");
        check(after.largest_free <= before.largest_free - 3 * kMiB, "less is free");
      },
      options_with(false)));
}

// No file, and so no shared memory either, may become larger than 4 MiB from here on.
void forbid_large_files() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {4 * kMiB, 4 * kMiB};
  check(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
}

TEST(Memory, ThatRunsOutIsAnErrorWithSizesAndTheGroupGoesOn) {
  SharedStore store;
  expect_well(start_processes(
      store, 2,
      [](World& world, int) {
        Communicator group = everybody(world);
        forbid_large_files();
        std::string text = "accepted";
        try {
          (void)group.allocate(32 * kMiB);
        } catch (const core::RunError& error) {
          text = error.what();
        }
        check(text.find("33554432 bytes of shared memory are wanted") != std::string::npos &&
                  text.find("bytes are available") != std::string::npos,
              text.c_str());
        check(group.allocate(kMiB) != nullptr, "what is there can be had");
        group.barrier("go on").wait();
      },
      options_with(false)));
}

TEST(Memory, ThatRunsOutIsReplacedByStagedMemoryWhereThatIsAllowed) {
  SharedStore store;
  expect_well(start_processes(
      store, 2,
      [](World& world, int rank) {
        Communicator group = everybody(world);
        forbid_large_files();
        const auto block = group.allocate(32 * kMiB);
        auto* x = reinterpret_cast<float*>(block.get());
        constexpr std::size_t kCount = 8 * kMiB;
        std::fill_n(x, kCount, static_cast<float>(rank + 1));
        group.all_reduce({x, kCount}, ReduceOp::Sum, "staged").wait();
        check(x[0] == 3.0F && x[kCount - 1] == 3.0F, "WRONG RESULT");
        check(world.memory().used < 32 * kMiB, "it is not in the arena");
      },
      options_with(true)));
}

}  // namespace
}  // namespace tutti::comm
