// A folder while the object lives, nothing afterwards.
#include "core/temporary_folder.h"

#include <gtest/gtest.h>

#include <fstream>

namespace tutti::core {
namespace {

TEST(TemporaryFolder, LivesWithItsObjectAndIsItsOwn) {
  std::filesystem::path was;
  {
    const TemporaryFolder folder("test");
    const TemporaryFolder other("test");
    was = folder.path();
    EXPECT_NE(was, other.path());
    EXPECT_TRUE(std::filesystem::is_empty(was));
    std::filesystem::create_directory(was / "inner");
    std::ofstream(was / "inner/file") << "x";
  }
  EXPECT_FALSE(std::filesystem::exists(was));
}

}  // namespace
}  // namespace tutti::core
