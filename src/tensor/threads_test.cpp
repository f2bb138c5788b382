// at::parallel_for is inline: whether it uses threads is decided by how its caller is compiled.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "tensor/torch.h"

namespace tutti::tensor {
namespace {

TEST(Threads, AreUsedByLoopsOfThisBuild) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<int> seen(300);
  at::parallel_for(0, 300, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  at::set_num_threads(before);
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_EQ(seen, std::vector<int>(300, 1));
}

}  // namespace
}  // namespace tutti::tensor
