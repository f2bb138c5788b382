// Small helpers of tests over ranks; needs GoogleTest.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "comm/world.h"

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

}  // namespace tutti::comm::testing
