// A descriptor has one owner.
#include "core/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace tutti::core {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

Fd open_null() { return Fd(::open("/dev/null", O_RDONLY)); }

TEST(Fd, ClosesAtTheEndOfItsScope) {
  int number = -1;
  {
    const Fd fd = open_null();
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, AMoveLeavesTheSourceEmpty) {
  Fd first = open_null();
  const int number = first.get();
  const Fd second = std::move(first);
  EXPECT_FALSE(static_cast<bool>(first));
  EXPECT_EQ(second.get(), number);
}

TEST(Fd, AnAssignmentClosesTheOldOne) {
  Fd fd = open_null();
  const int old = fd.get();
  fd = open_null();
  EXPECT_NE(fd.get(), old);
  EXPECT_FALSE(is_open(old));
  EXPECT_TRUE(is_open(fd.get()));
}

TEST(Fd, ReleaseGivesTheDescriptorAway) {
  Fd fd = open_null();
  const int number = fd.release();
  EXPECT_FALSE(static_cast<bool>(fd));
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

}  // namespace
}  // namespace tutti::core
