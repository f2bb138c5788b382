// Mixed-radix arithmetic: a world rank is its coordinates, slowest axis first.
#include "mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::mesh {
namespace {

std::map<Axis, int> coordinates_of(const Layout& layout, int rank) {
  std::map<Axis, int> coordinates;
  for (auto axis = layout.order.rbegin(); axis != layout.order.rend(); ++axis) {
    coordinates[*axis] = rank % layout.size(*axis);
    rank /= layout.size(*axis);
  }
  return coordinates;
}

/// Place of a rank in dp x cp, the plane that ep cuts into groups of neighbours.
int plane_index(const Layout& layout, const std::map<Axis, int>& coordinates) {
  return coordinates.at(Axis::Dp) * layout.size(Axis::Cp) + coordinates.at(Axis::Cp);
}

}  // namespace

Mesh::Mesh(Layout layout, int world_rank) : layout_(std::move(layout)), world_rank_(world_rank) {
  if (world_rank < 0 || world_rank >= layout_.ranks()) {
    throw std::invalid_argument(
        fmt::format("rank {} of a layout of {} ranks", world_rank, layout_.ranks()));
  }
  const int plane = layout_.size(Axis::Dp) * layout_.size(Axis::Cp);
  const int ep = layout_.size(Axis::Ep);
  if (ep < 1 || plane % ep != 0) {
    throw std::invalid_argument(fmt::format("ep = {} does not divide dp x cp = {}", ep, plane));
  }
  if (layout_.zero_shard < 0 || plane % layout_.shards() != 0) {
    throw std::invalid_argument(
        fmt::format("zero_shard = {} does not divide dp x cp = {}", layout_.zero_shard, plane));
  }
  coordinates_ = coordinates_of(layout_, world_rank);
  coordinates_[Axis::Ep] = plane_index(layout_, coordinates_) % ep;
}

std::vector<int> Mesh::group(AxisSet axes) const {
  const bool dp = axes.contains(Axis::Dp);
  const bool cp = axes.contains(Axis::Cp);
  const bool ep = axes.contains(Axis::Ep);
  if (ep && dp != cp) throw std::invalid_argument(fmt::format("group over {}", name(axes)));
  const bool expert_group = ep && !dp;
  const int mine = plane_index(layout_, coordinates_);

  const auto belongs = [&](const std::map<Axis, int>& other) {
    for (const Axis axis : layout_.order) {
      const bool in_plane = axis == Axis::Dp || axis == Axis::Cp;
      if (axes.contains(axis) || (in_plane && expert_group)) continue;
      if (other.at(axis) != coordinates_.at(axis)) return false;
    }
    return !expert_group || plane_index(layout_, other) / size(Axis::Ep) == mine / size(Axis::Ep);
  };
  std::vector<int> ranks;
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    if (belongs(coordinates_of(layout_, rank))) ranks.push_back(rank);
  }
  return ranks;
}

// Neighbours in the order of ranks are neighbours in the cluster: the shares travel between them.
std::vector<int> Mesh::shard_group() const {
  const std::vector<int> replicas = group({Axis::Dp, Axis::Cp});
  const auto own = std::ranges::find(replicas, world_rank_) - replicas.begin();
  const auto first = replicas.begin() + own / layout_.shards() * layout_.shards();
  return {first, first + layout_.shards()};
}

std::vector<int> Mesh::shard_copies() const {
  const std::vector<int> replicas = group({Axis::Dp, Axis::Cp});
  const auto own = std::ranges::find(replicas, world_rank_) - replicas.begin();
  const auto shards = static_cast<std::size_t>(layout_.shards());
  std::vector<int> ranks;
  for (std::size_t i = static_cast<std::size_t>(own) % shards; i < replicas.size(); i += shards)
    ranks.push_back(replicas[i]);
  return ranks;
}

std::vector<std::string> describe_groups(const Layout& layout) {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view of, const std::vector<int>& first) {
    const std::size_t groups = static_cast<std::size_t>(layout.ranks()) / first.size();
    if (first.size() < 2) return;
    lines.push_back(fmt::format("{}: {} group{} of {} ranks, the first is {}", of, groups,
                                groups == 1 ? "" : "s", first.size(), fmt::join(first, " ")));
  };
  const Mesh mesh(layout, 0);
  for (const Axis axis : kAxes) {
    if (layout.size(axis) > 1) add(name(axis), mesh.group({axis}));
  }
  if (layout.zero_shard > 0) {
    add("shards", mesh.shard_group());
    add("copies of shards", mesh.shard_copies());
  }
  return lines;
}

}  // namespace tutti::mesh
