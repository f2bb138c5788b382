// Fresh pages: zeros, aligned, given back.
#include "tensor/zero_pages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace tutti::tensor {
namespace {

// Whether some mapping of this process begins at `data`.
bool is_mapped(const void* data) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (std::stoull(line, nullptr, 16) == reinterpret_cast<std::uintptr_t>(data)) return true;
  }
  return false;
}

TEST(ZeroPages, AreZeroToTheEndAndWritable) {
  for (const std::int64_t elements :
       {std::int64_t{1}, std::int64_t{1} << 19, std::int64_t{600'001}}) {
    const at::Tensor zeros = zero_pages(elements, at::kFloat);
    EXPECT_EQ(zeros.numel(), elements);
    EXPECT_EQ(zeros.count_nonzero().item<std::int64_t>(), 0);
    zeros.fill_(1);
    EXPECT_EQ(zeros.sum(at::kDouble).item<double>(), static_cast<double>(elements));
  }
  EXPECT_EQ(zero_pages(0, at::kDouble).numel(), 0);
  EXPECT_EQ(zero_pages(3, at::kDouble).scalar_type(), at::kDouble);
}

TEST(ZeroPages, LiveAsLongAsAViewOfThem) {
  at::Tensor zeros = zero_pages(1'000'000, at::kDouble);
  const void* data = zeros.data_ptr();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % (std::size_t{2} << 20), 0U);
  at::Tensor view = zeros.narrow(0, 999'999, 1);
  zeros.reset();
  ASSERT_TRUE(is_mapped(data));
  EXPECT_EQ(view.item<double>(), 0);
  view.reset();
  EXPECT_FALSE(is_mapped(data));
}

}  // namespace
}  // namespace tutti::tensor
