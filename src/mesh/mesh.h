// Rank <-> coordinates, and the groups of ranks that differ in some axes only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mesh/axis.h"
#include "mesh/layout.h"

namespace tutti::mesh {

/// One rank's view of the layout: its coordinates, and the ranks it communicates with. A value;
/// cheap to copy.
class Mesh {
 public:
  /// Throws std::invalid_argument unless 0 <= world_rank < layout.ranks(), and ep and zero_shard
  /// divide dp x cp.
  Mesh(Layout layout, int world_rank);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] int world_rank() const { return world_rank_; }
  [[nodiscard]] int size(Axis axis) const { return layout_.size(axis); }
  /// This rank's place along `axis`, 0 <= coordinate < size(axis).
  [[nodiscard]] int coordinate(Axis axis) const { return coordinates_.at(axis); }
  /// World ranks that share every coordinate outside `axes` with this rank, ascending; this rank is
  /// among them. ep is no coordinate of its own but the fast part of (dp, cp): {Ep} is the ranks of
  /// one expert group, {Dp, Cp} takes no notice of it. Throws std::invalid_argument for ep beside
  /// only one of dp and cp, which has no one meaning.
  [[nodiscard]] std::vector<int> group(AxisSet axes) const;

  /// The ranks of {Dp, Cp} that share out one copy of parameters and state with this one:
  /// layout().shards() neighbours, ascending. All of {Dp, Cp} without zero_shard.
  [[nodiscard]] std::vector<int> shard_group() const;
  /// The ranks of {Dp, Cp} that hold the same shares as this one, one of each shard group.
  [[nodiscard]] std::vector<int> shard_copies() const;

 private:
  Layout layout_;
  int world_rank_;
  std::map<Axis, int> coordinates_;
};

/// Groups of every axis with several ranks, a line each, for people:
/// "tp: 4 groups of 2 ranks, the first is 0 1"; shard groups and their copies behind them. Empty
/// for one rank.
std::vector<std::string> describe_groups(const Layout& layout);

}  // namespace tutti::mesh
