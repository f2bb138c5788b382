// What `tutti verify` runs: its layouts, each as a complete config, checked before anything starts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/error.h"
#include "topology/cluster.h"

namespace tutti::cli {

/// One run of the certificate.
struct VerifyRun {
  std::string name;          // the LAYOUT as the user wrote it, or "one rank, fp64"
  config::RunConfig config;  // complete: layout and precision are set
  int ranks = 1;
};

struct VerifyPlan {
  VerifyRun reference64;
  VerifyRun single;  // in the precision of the layouts: bf16 if the config says so, else fp32
  std::vector<VerifyRun> layouts;
};

/// `layouts`: LAYOUTs, or the single word "all". Every mistake of every layout becomes a problem;
/// the plan is then not usable. Throws ConfigError if the config itself cannot be read.
VerifyPlan plan_verify(const std::string& config, std::span<const std::string> layouts,
                       const topology::Host& host, std::vector<core::Problem>& problems);

/// What "all" means: the product of every dp x tp of at most 4 ranks (tp where it divides the
/// heads), ZeRO 0 to 3 (3 with shared pages and private shards), micro 1 and the config's own
/// (where the global batch is a multiple of micro x dp), sequence parallelism on and off, each
/// recompute.
std::vector<std::string> all_layouts(const config::RunConfig& base);

}  // namespace tutti::cli
