// Small helpers of tests over ranks; needs GoogleTest.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/world.h"
#include "core/clock.h"

namespace tutti::comm::testing {

/// A group of all ranks.
inline Communicator everybody(World& world) {
  std::vector<int> all(world.size());
  std::iota(all.begin(), all.end(), 0);
  return world.group("all", all);
}

inline void expect_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

inline core::Deadline within(double seconds) { return core::Deadline(core::Seconds(seconds)); }

/// For ranks that are processes, whose errors are texts: GoogleTest's own checks do not reach the
/// parent.
inline void check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace tutti::comm::testing
