// Ranks, coordinates and groups, against a brute-force reading of the layout.
#include "mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tutti::mesh {
namespace {

using testing::ElementsAre;

Layout sized(int dp, int tp, int pp, int cp, int ep = 1) {
  Layout layout;
  layout.sizes = {{Axis::Dp, dp}, {Axis::Tp, tp}, {Axis::Pp, pp}, {Axis::Cp, cp}, {Axis::Ep, ep}};
  return layout;
}

std::vector<Layout> many_layouts() {
  std::vector<Layout> layouts;
  for (const int dp : {1, 2, 3}) {
    for (const int tp : {1, 2}) {
      for (const int pp : {1, 3}) {
        for (const int cp : {1, 2}) layouts.push_back(sized(dp, tp, pp, cp));
      }
    }
  }
  Layout turned = sized(3, 2, 2, 2);
  turned.order = {Axis::Tp, Axis::Cp, Axis::Pp, Axis::Dp};
  layouts.push_back(turned);
  return layouts;
}

constexpr std::array kOwnAxes = {Axis::Dp, Axis::Tp, Axis::Pp, Axis::Cp};

AxisSet subset(unsigned bits) {
  AxisSet axes;
  for (std::size_t i = 0; i < kOwnAxes.size(); ++i) {
    if ((bits >> i & 1U) != 0) axes = axes | AxisSet{kOwnAxes[i]};
  }
  return axes;
}

TEST(Mesh, TpIsFastestThenCpThenDpThenPp) {
  const Layout layout = sized(2, 2, 2, 2);
  const Mesh mesh(layout, 11);  // 11 = 1 x 8 + 0 x 4 + 1 x 2 + 1
  EXPECT_EQ(mesh.coordinate(Axis::Pp), 1);
  EXPECT_EQ(mesh.coordinate(Axis::Dp), 0);
  EXPECT_EQ(mesh.coordinate(Axis::Cp), 1);
  EXPECT_EQ(mesh.coordinate(Axis::Tp), 1);
  EXPECT_THAT(mesh.group({Axis::Tp}), ElementsAre(10, 11));
  EXPECT_THAT(mesh.group({Axis::Pp}), ElementsAre(3, 11));
  EXPECT_THAT(mesh.group({Axis::Dp, Axis::Cp}), ElementsAre(9, 11, 13, 15));
}

TEST(Mesh, ShardGroupsAreNeighboursAndCopiesHoldTheSameShare) {
  Layout layout = sized(4, 2, 1, 1);
  layout.zero_shard = 2;
  const Mesh mesh(layout, 5);  // dp 2, tp 1
  EXPECT_THAT(mesh.shard_group(), ElementsAre(5, 7));
  EXPECT_THAT(mesh.shard_copies(), ElementsAre(1, 5));
  layout.zero_shard = 0;
  EXPECT_THAT(Mesh(layout, 5).shard_group(), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(Mesh(layout, 5).shard_copies(), ElementsAre(5));
  layout.zero_shard = 2;
  layout.zero = 0;  // shares out nothing
  EXPECT_THAT(Mesh(layout, 5).shard_group(), ElementsAre(1, 3, 5, 7));
}

TEST(Mesh, EveryReplicaIsInOneShardGroupAndIsOneCopy) {
  for (Layout layout : many_layouts()) {
    const int plane = layout.size(Axis::Dp) * layout.size(Axis::Cp);
    for (int shards = 1; shards <= plane; ++shards) {
      if (plane % shards != 0) continue;
      layout.zero_shard = shards;
      SCOPED_TRACE(describe(layout));
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        const Mesh mesh(layout, rank);
        const std::vector<int> group = mesh.shard_group(), copies = mesh.shard_copies();
        EXPECT_EQ(static_cast<int>(group.size()), shards);
        EXPECT_EQ(static_cast<int>(copies.size()), plane / shards);
        std::set<int> both;  // one of each group, each of one group: together they span dp x cp
        for (const int copy : copies) {
          EXPECT_EQ(Mesh(layout, copy).shard_copies(), copies);
          for (const int other : Mesh(layout, copy).shard_group()) both.insert(other);
        }
        const std::vector<int> replicas = mesh.group({Axis::Dp, Axis::Cp});
        EXPECT_EQ(both, std::set<int>(replicas.begin(), replicas.end()));
        EXPECT_TRUE(std::set<int>(group.begin(), group.end()).contains(rank));
      }
    }
  }
  Layout layout = sized(4, 1, 1, 1);
  layout.zero_shard = 3;
  EXPECT_THROW(Mesh(layout, 0), std::invalid_argument);
}

TEST(Mesh, CoordinatesNameEachRankOnce) {
  for (const Layout& layout : many_layouts()) {
    SCOPED_TRACE(describe(layout));
    std::set<std::vector<int>> seen;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const Mesh mesh(layout, rank);
      std::vector<int> coordinates;
      for (const Axis axis : kOwnAxes) {
        ASSERT_GE(mesh.coordinate(axis), 0);
        ASSERT_LT(mesh.coordinate(axis), layout.size(axis));
        coordinates.push_back(mesh.coordinate(axis));
      }
      EXPECT_TRUE(seen.insert(coordinates).second) << "rank " << rank;
    }
    EXPECT_EQ(static_cast<int>(seen.size()), layout.ranks());
  }
}

TEST(Mesh, GroupsCutTheWorldIntoEqualParts) {
  for (const Layout& layout : many_layouts()) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      const AxisSet axes = subset(bits);
      SCOPED_TRACE(describe(layout) + " over " + name(axes));
      std::size_t expected = 1;
      for (const Axis axis : kOwnAxes) {
        if (axes.contains(axis)) expected *= static_cast<std::size_t>(layout.size(axis));
      }
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        const std::vector<int> group = Mesh(layout, rank).group(axes);
        EXPECT_EQ(group.size(), expected);
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
        EXPECT_THAT(group, testing::Contains(rank));
        for (const int member : group) EXPECT_EQ(Mesh(layout, member).group(axes), group);
      }
    }
  }
}

TEST(Mesh, ExpertGroupsAreNeighboursInsideDpTimesCp) {
  const Layout layout = sized(4, 2, 1, 1, 2);
  EXPECT_THAT(Mesh(layout, 0).group({Axis::Ep}), ElementsAre(0, 2));
  EXPECT_THAT(Mesh(layout, 7).group({Axis::Ep}), ElementsAre(5, 7));
  EXPECT_EQ(Mesh(layout, 2).coordinate(Axis::Ep), 1);
  EXPECT_THAT(Mesh(layout, 1).group({Axis::Dp, Axis::Cp}), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(Mesh(layout, 1).group({Axis::Dp, Axis::Cp, Axis::Ep}), ElementsAre(1, 3, 5, 7));
  EXPECT_THROW((void)Mesh(layout, 0).group({Axis::Ep, Axis::Dp}), std::invalid_argument);
}

TEST(Mesh, RefusesRanksAndExpertsThatDoNotFit) {
  EXPECT_THROW(Mesh(sized(2, 1, 1, 1), 2), std::invalid_argument);
  EXPECT_THROW(Mesh(sized(2, 1, 1, 1), -1), std::invalid_argument);
  EXPECT_THROW(Mesh(sized(0, 1, 1, 1), 0), std::invalid_argument);
  EXPECT_THROW(Mesh(sized(2, 1, 1, 1, 3), 0), std::invalid_argument);
}

TEST(Axis, NamesGoThereAndBack) {
  for (const Axis axis : kAxes) EXPECT_EQ(axis_from_name(name(axis)), axis);
  EXPECT_EQ(axis_from_name("xp"), std::nullopt);
  EXPECT_EQ(name(AxisSet{Axis::Cp, Axis::Dp}), "dp+cp");
  EXPECT_EQ(name(AxisSet{}), "none");
}

TEST(DescribeGroups, NamesTheFirstOfEveryAxis) {
  Layout layout;
  EXPECT_TRUE(describe_groups(layout).empty());
  layout.sizes = {{Axis::Dp, 3}, {Axis::Tp, 2}};
  EXPECT_EQ(describe_groups(layout),
            (std::vector<std::string>{"dp: 2 groups of 3 ranks, the first is 0 2 4",
                                      "tp: 3 groups of 2 ranks, the first is 0 1"}));
}

}  // namespace
}  // namespace tutti::mesh
