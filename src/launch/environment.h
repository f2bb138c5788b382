// Which rank this process is: read from the variables that launchers set. The one place that knows
// their names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace tutti::launch {

/// How a process takes its place in the world. Filled by our launcher or from torchrun's variables.
struct JoinOptions {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  int local_ranks = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;       // 0: one rank, no store
  int store_listen_fd = -1;  // rank 0 under our launcher: the listening socket it inherits
  std::string run_id = "0";
  bool agent_store = false;    // torchrun: its agent serves the store, rank 0 is a client too
  std::string from = "alone";  // "tutti", "torchrun", "alone": for the start line
};

using GetEnv = std::function<std::optional<std::string>(const std::string&)>;

/// The process's own environment.
std::optional<std::string> process_env(const std::string& name);

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
/// TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_USE_AGENT_STORE (torchrun); from
/// our launcher TUTTI_RUN_ID and TUTTI_STORE_FD beside the first six. Empty if none of the six is
/// set. A half-set or impossible set becomes problems that name the variables.
std::optional<JoinOptions> from_environment(const GetEnv& get,
                                            std::vector<core::Problem>& problems);

}  // namespace tutti::launch
