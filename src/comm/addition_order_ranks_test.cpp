// The order of additions, by every algorithm that the engine chooses from.
#include <gtest/gtest.h>

#include <vector>

#include "comm/communicator.h"
#include "comm/testing.h"
#include "comm/testing_block.h"
#include "comm/testing_expect.h"

namespace tutti::comm {
namespace {

using testing::all_values;
using testing::Block;
using testing::Bytes;
using testing::difference;
using testing::everybody;
using testing::expect_no_errors;
using testing::Memory;
using testing::reduced;

// The order of additions belongs to the group: a group on two NUMA nodes, and one of more than 16
// ranks, give the same bits by every algorithm that the engine chooses from.
void expect_the_order_of_runs(int ranks, std::size_t run, const std::vector<int>& numa) {
  for (const char* algorithm : {"auto", "one-shot", "direct", "staged", "hierarchical"}) {
    WireUpOptions options;
    options.comm.algorithm = algorithm;
    options.numa = numa;
    expect_no_errors(testing::run_as_threads(
        ranks,
        [&](World& world, int rank) {
          Communicator group = everybody(world);
          for (const DType dtype : {DType::Float32, DType::BFloat16}) {
            for (const std::size_t count :
                 {std::size_t{5}, std::size_t{3001}, std::size_t{70001}}) {
              const auto inputs = all_values(dtype, ranks, count);
              for (const Reduce op : {Reduce(ReduceOp::Sum), Reduce(ReduceOp::Avg)}) {
                const Bytes expected = reduced(inputs, dtype, op, run);
                Block io(group, Memory::Mixed, inputs[rank], dtype);
                group.all_reduce(io.buffer(), op, "case").wait();
                ASSERT_EQ(difference(io.content(), expected, dtype), "")
                    << algorithm << " " << name(op.op) << " of " << count << " " << name(dtype);
              }
            }
          }
        },
        options));
  }
}

TEST(AdditionOrder, OfAGroupOnTwoNumaNodesIsNodeByNode) {
  expect_the_order_of_runs(4, 2, {0, 0, 1, 1});
}

TEST(AdditionOrder, OfAGroupOfManyRanksIsRunByRun) { expect_the_order_of_runs(18, 3, {}); }

}  // namespace
}  // namespace tutti::comm
