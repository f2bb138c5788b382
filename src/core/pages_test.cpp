// Pages: zeros on the right boundaries, huge where the kernel gives them, small where not.
#include "core/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/fd.h"

namespace tutti::core {
namespace {

constexpr std::size_t kBytes = 3 * kHugePage + 5000;

/// Bytes of the mapping that begins at `data` which the page table maps as huge pages.
std::size_t mapped_huge(const void* data) {
  std::ifstream smaps("/proc/self/smaps");
  bool ours = false;
  std::size_t kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    const std::size_t word = line.find_first_of(" :");
    if (word != std::string::npos && line[word] == ' ')
      ours = std::stoull(line, nullptr, 16) == reinterpret_cast<std::uintptr_t>(data);
    const std::string key = line.substr(0, word);
    if (ours && (key == "ShmemPmdMapped" || key == "AnonHugePages"))
      kib += std::stoull(line.substr(word + 1));
  }
  return kib * 1024;
}

Fd memory_file(std::size_t bytes) {
  Fd fd(::memfd_create("pages-test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

bool all_zero(const std::byte* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
}

/// Forbids huge pages for the test's process, and allows them again.
struct Forbidden {
  Forbidden() { forbid_huge_pages(); }
  ~Forbidden() { ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }
};

TEST(MapPrivate, GivesZerosOnTheBoundaryOfAHugePage) {
  for (const std::size_t bytes : {std::size_t{1}, kHugePage, kBytes}) {
    std::byte* data = map_private(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kHugePage, 0U);
    EXPECT_TRUE(all_zero(data, bytes));
    std::fill_n(data, bytes, std::byte{1});
    EXPECT_EQ(::munmap(data, bytes), 0);
  }
}

TEST(MakePages, MakesAllOfThemAndLeavesThemZero) {
  std::byte* data = map_private(kBytes);
  make_pages(data, kBytes);
  std::vector<unsigned char> there(kBytes / 4096 + 1);
  ASSERT_EQ(::mincore(data, kBytes, there.data()), 0);
  EXPECT_EQ(std::count_if(there.begin(), there.end(), [](int page) { return (page & 1) == 0; }), 0);
  EXPECT_TRUE(all_zero(data, kBytes));
  ::munmap(data, kBytes);
}

TEST(MapShared, ShowsTheFileToEveryMapping) {
  for (const std::size_t bytes : {std::size_t{4096}, kHugePage, kBytes}) {
    const Fd fd = memory_file(bytes);
    std::byte* one = map_shared(fd.get(), bytes);
    std::byte* other = map_shared(fd.get(), bytes);
    ASSERT_TRUE(one != nullptr && other != nullptr && one != other);
    if (bytes >= kHugePage) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one) % kHugePage, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other) % kHugePage, 0U);
    }
    one[bytes - 1] = std::byte{7};
    EXPECT_EQ(other[bytes - 1], std::byte{7});
    ::munmap(one, bytes);
    ::munmap(other, bytes);
  }
}

TEST(MapShared, RefusesWhatIsNoFile) {
  errno = 0;
  EXPECT_EQ(map_shared(-1, kBytes), nullptr);
  EXPECT_EQ(errno, EBADF);
}

TEST(HugePages, LieUnderTheWholePiecesOfAMemoryFile) {
  const Fd fd = memory_file(kBytes);
  const std::size_t laid = lay_on_huge_pages(fd.get(), kBytes);
  if (laid == 0) GTEST_SKIP() << "this kernel gives memory files no huge pages";
  EXPECT_LE(laid, 3 * kHugePage);
  EXPECT_EQ(laid % kHugePage, 0U);
  std::byte* data = map_shared(fd.get(), kBytes);
  ASSERT_NE(data, nullptr);
  EXPECT_TRUE(all_zero(data, kBytes));  // touches every page, which maps it
  EXPECT_EQ(mapped_huge(data), laid);
  ::munmap(data, kBytes);
}

TEST(HugePages, KeepWhatTheFileHolds) {
  const Fd fd = memory_file(kBytes);
  std::byte* data = map_shared(fd.get(), kBytes);
  data[0] = data[kHugePage + 12345] = data[kBytes - 1] = std::byte{9};
  lay_on_huge_pages(fd.get(), kBytes);
  EXPECT_EQ(data[0], std::byte{9});
  EXPECT_EQ(data[kHugePage + 12345], std::byte{9});
  EXPECT_EQ(data[kBytes - 1], std::byte{9});
  EXPECT_EQ(std::count(data, data + kBytes, std::byte{0}), static_cast<long>(kBytes - 3));
  ::munmap(data, kBytes);
}

TEST(HugePages, AreNoneInLessThanOneAndWhereTheyAreForbidden) {
  EXPECT_EQ(lay_on_huge_pages(memory_file(kHugePage - 4096).get(), kHugePage - 4096), 0U);
  const Forbidden forbidden;
  EXPECT_EQ(lay_on_huge_pages(memory_file(kBytes).get(), kBytes), 0U);
  std::byte* data = map_private(kBytes);
  std::fill_n(data, kBytes, std::byte{1});
  EXPECT_EQ(mapped_huge(data), 0U);
  ::munmap(data, kBytes);
}

}  // namespace
}  // namespace tutti::core
