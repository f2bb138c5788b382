// The groups of a job: one Group per set of axes that something communicates over.
#pragma once

#include "backend/group.h"
#include "comm/world.h"
#include "mesh/mesh.h"

namespace tutti::backend {

struct Groups {
  Group world;    // all ranks: metrics, the wish to stop
  Group dp;       // all replicas: loss, norm
  Group shards;   // gradients: those of dp that share out one copy of parameters and state
  Group copies;   // gradients: those that hold the same shares
  Group gathers;  // parameters: the ranks of shards, in a queue of their own
  Group tp;       // activations
};

/// Every rank calls it with the same mesh.
Groups connect(comm::World& world, const mesh::Mesh& mesh);

}  // namespace tutti::backend
