// Closed forms against counts of the generated lists.
#include "schedule/collective_cost.h"

#include <gtest/gtest.h>

namespace tutti::schedule {
namespace {

// Divisible by every cut of the algorithms for these ranks.
std::size_t even_size(int ranks, int chunks) {
  return static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * 16 * 2 *
         static_cast<std::size_t>(chunks);
}

void expect_equal(const CollectiveRequest& request) {
  const CollectiveCost closed = cost(request);
  const CollectiveCost counted = count(generate(request));
  SCOPED_TRACE(fmt::format("{} {}, {} ranks, group {}, between {}, chunks {}, root {}",
                           name(request.algorithm), name(request.operation), request.ranks,
                           request.group, name(request.between), request.chunks, request.root));
  EXPECT_EQ(closed.rounds, counted.rounds);
  EXPECT_DOUBLE_EQ(closed.moved, counted.moved);
  EXPECT_DOUBLE_EQ(closed.added, counted.added);
}

TEST(CollectiveCost, ClosedFormsEqualTheCountsOfTheLists) {
  for (const Operation operation : all_operations()) {
    for (const Algorithm algorithm : all_algorithms()) {
      if (!supports(operation, algorithm) || algorithm == Algorithm::Hierarchical) continue;
      for (int ranks = 1; ranks <= 17; ++ranks) {
        for (const int root : {0, ranks - 1}) {
          for (const int chunks : {1, 3}) {
            expect_equal({.operation = operation,
                          .algorithm = algorithm,
                          .ranks = ranks,
                          .elements = even_size(ranks, chunks),
                          .root = root,
                          .chunks = chunks});
          }
        }
      }
    }
  }
}

TEST(CollectiveCost, HierarchicalFormsEqualTheCountsForEveryGroupAndRail) {
  for (const Algorithm between : {Algorithm::Ring, Algorithm::Halving, Algorithm::Doubling,
                                  Algorithm::Tree, Algorithm::Chain, Algorithm::Direct}) {
    for (const Operation operation :
         {Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather}) {
      if (operation != Operation::AllReduce && between != Algorithm::Ring) continue;
      for (const int ranks : {1, 2, 6, 12, 16}) {
        for (int group = 1; group <= ranks; ++group) {
          if (ranks % group != 0) continue;
          expect_equal({.operation = operation,
                        .algorithm = Algorithm::Hierarchical,
                        .ranks = ranks,
                        .elements = even_size(ranks, 2),
                        .group = group,
                        .between = between,
                        .chunks = 2});
        }
      }
    }
  }
}

// By hand: a rank stores its share into two buffers, and on a ring it passes on all but the share
// of the next rank.
TEST(CollectiveCost, UnevenCountsArePricedByTheirShares) {
  CollectiveRequest request{.operation = Operation::AllGather,
                            .algorithm = Algorithm::Direct,
                            .ranks = 3,
                            .counts = {1, 0, 5}};
  EXPECT_EQ(cost(request).moved, 2 * 5);
  request.algorithm = Algorithm::Ring;
  EXPECT_EQ(cost(request).moved, 6);
}

TEST(CollectiveCost, RefusesWhatCannotBeGenerated) {
  EXPECT_THROW(cost({.operation = Operation::Broadcast, .algorithm = Algorithm::Ring, .ranks = 4}),
               std::invalid_argument);
}

}  // namespace
}  // namespace tutti::schedule
