// Groups from the mesh.
#include "backend/connect.h"

#include <numeric>

namespace tutti::backend {

Groups connect(comm::World& world, const mesh::Mesh& mesh) {
  using mesh::Axis;
  std::vector<int> all(world.size());
  std::iota(all.begin(), all.end(), 0);
  return {.world = Group(world.group("world", all)),
          .dp = Group(world.group("dp", mesh.group({Axis::Dp, Axis::Cp}))),
          .shards = Group(world.group("shards", mesh.shard_group())),
          .copies = Group(world.group("copies of shards", mesh.shard_copies())),
          .gathers = Group(world.group("parameters", mesh.shard_group())),
          .tp = Group(world.group("tp", mesh.group({Axis::Tp})))};
}

}  // namespace tutti::backend
