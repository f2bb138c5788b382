// The memory of a config's ranks: spec's numbers with the config's settings and this host's limit.
#pragma once

#include <cstdint>
#include <optional>

#include "config/run_config.h"
#include "mesh/layout.h"
#include "spec/memory_report.h"

namespace tutti::cli {

/// What ranks may use.
struct MemoryLimits {
  std::optional<std::uint64_t> per_rank;  // --limit; wins over [run] memory_limit and the host
  std::uint64_t host_available = 0;       // shared by the ranks that run here; 0: not known
  int local_ranks = 1;
  int threads = 1;  // of a rank, where [run] threads leaves it open
};

/// Which changes may be proposed when it does not fit.
enum class Proposals { Everything, WhatARunObeys };

/// `model` is resolved and `layout` complete. With several micro-batches ZeRO 3 keeps parameters
/// gathered from one to the next where the limit leaves room: the report says so and counts them.
/// Problems: what the layout needs of the sizes; the report is then empty. Counts the model as a
/// graph, so any size is quick.
spec::MemoryReport plan_memory(const config::RunConfig& config, const spec::ModelOptions& model,
                               const mesh::Layout& layout, const MemoryLimits& limits,
                               Proposals proposals, std::vector<core::Problem>& problems);

}  // namespace tutti::cli
