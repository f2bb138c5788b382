// The heap before main(): large, and asked for in huge pages.
#include "tensor/loading_heap.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace tutti::tensor {
namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool huge = false;
};

/// The first mapping of the kernel's "[heap]" that is advised to lie on huge pages.
Range huge_part_of_heap() {
  std::ifstream file("/proc/self/smaps");
  Range range;
  bool heap = false;
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find('-');
    const std::size_t word = line.find_first_of(" :");
    if (word != std::string::npos && line[word] == ' ' && dash < word) {
      heap = line.find("[heap]") != std::string::npos;
      range.begin = std::stoull(line.substr(0, dash), nullptr, 16);
      range.end = std::stoull(line.substr(dash + 1, word - dash - 1), nullptr, 16);
    } else if (heap && line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos) {
      range.huge = true;
      return range;
    }
  }
  return {};
}

TEST(LoadingHeap, IsOneLargeRangeOnHugePagesBeforeLibTorchIsInitialised) {
  EXPECT_GT(loading_heap_bytes(), std::size_t{60} << 20);
  const Range range = huge_part_of_heap();
  ASSERT_TRUE(range.huge);
  EXPECT_GE(range.end - range.begin, loading_heap_bytes());
}

}  // namespace
}  // namespace tutti::tensor
