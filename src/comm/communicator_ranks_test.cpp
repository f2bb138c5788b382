// Collectives over threads as ranks, against an oracle that knows nothing of slices or chunks.
#include <gtest/gtest.h>

#include <numeric>

#include "comm/testing.h"

namespace tutti::comm {
namespace {

TEST(Smoke, AllReduce) {
  for (int n : {1, 2, 3, 8}) {
    auto errors = testing::run_as_threads(n, [n](World& world, int rank) {
      std::vector<int> all(n);
      std::iota(all.begin(), all.end(), 0);
      Communicator g = world.group("dp", all);
      for (std::size_t count : {0, 1, 5, 1000, 100000, 1000000}) {
        std::vector<float> x(count, rank + 1.0f);
        g.all_reduce({x.data(), count}, ReduceOp::Sum, "x").wait();
        for (float v : x) ASSERT_EQ(v, n * (n + 1) / 2.0f);
        auto mem = g.allocate(count * 4);
        float* a = reinterpret_cast<float*>(mem.get());
        std::fill_n(a, count, rank + 1.0f);
        g.all_reduce({a, count}, ReduceOp::Sum, "x").wait();
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(a[i], n * (n + 1) / 2.0f);
        g.barrier("b").wait();
      }
    });
    for (auto& e : errors) EXPECT_EQ(e, "");
  }
}

}  // namespace
}  // namespace tutti::comm
