// What the ranks of a replica must agree on, and the groups in which they share it out.
#pragma once

#include "api/handles.h"
#include "api/module_params.h"
#include "parallel/replica.h"

namespace tutti {

/// Neighbours of `all` that share out one copy, and copies of each other
/// (ReplicaOptions::zero_shard). Collective. Throws core::ConfigError for options that do not fit
/// the group or the module, and on every rank if one has another module or other options than rank
/// 0, naming the first difference.
parallel::ReplicaGroups replica_groups(const Group::State& all, const ModuleParams& module,
                                       bool in_blocks, const ReplicaOptions& options);

}  // namespace tutti
