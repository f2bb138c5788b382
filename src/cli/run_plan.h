// A run, thought through before anything starts: config, model, layout and memory, with every
// mistake at once.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/error.h"
#include "core/json.h"
#include "mesh/layout.h"
#include "spec/memory_report.h"
#include "spec/model_spec.h"
#include "topology/cluster.h"

namespace tutti::cli {

struct RunPlan {
  config::RunConfig config;  // complete: dp is filled in
  spec::ModelSpec model;
  mesh::Layout layout;
  spec::MemoryReport memory;  // of each rank
};

/// Where the ranks come from.
struct RanksWanted {
  int given =
      0;  // -n, or WORLD_SIZE of the launcher that started us; 0: the axes, else one per core
  int local = 0;  // of these, on this host; 0: all
};

/// The complete sizes. A vocabulary that the config leaves to the tokenizer is the token file's, or
/// that of bytes if there is none to read.
spec::ModelOptions resolve_model(const config::RunConfig& config,
                                 std::vector<core::Problem>& problems);

/// The layout with dp filled in, also in `config`, and the batch checked against it.
mesh::Layout plan_layout(config::RunConfig& config, RanksWanted wanted, const topology::Host& host,
                         std::vector<core::Problem>& problems);

/// Resolves and checks. Problems of all modules are added to `problems`; if there are any the plan
/// is not usable.
RunPlan plan_run(const config::RunConfig& config, RanksWanted wanted, const topology::Host& host,
                 std::vector<core::Problem>& problems);

/// [batch] global must be whole micro-batches on every rank; the message names numbers that work.
void check_batch(const train::BatchOptions& batch, int ranks, std::vector<core::Problem>& problems);

/// What --dry-run prints: layout, groups, parameters, bytes, steps.
std::string describe(const RunPlan& plan);
core::Json to_json(const RunPlan& plan);

}  // namespace tutti::cli
