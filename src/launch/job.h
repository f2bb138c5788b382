// All local ranks of a job, from the first fork to the last wait.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/reap.h"

namespace tutti::launch {

struct JobOptions {
  std::filesystem::path program;
  std::vector<std::string> args;
  int ranks = 1;
  std::vector<std::vector<int>> cpus;      // mask per rank; empty: none
  std::map<std::string, std::string> env;  // over the launcher's environment, for every rank
  bool prefix = false;                     // forward every rank's lines with "[rank] " in front
  std::filesystem::path
      log_folder;  // output of ranks 1 and up is appended to rank-R.txt there; empty: it is the
                   // launcher's own. Not with `prefix`. The folder exists.
  bool hand_store = false;  // rank 0 inherits the listening socket of MASTER_PORT as
                            // TUTTI_STORE_FD; false: the port was free a moment ago
  Grace grace = {};
};

struct JobResult {
  int exit_status = 0;  // see EndPolicy
  std::string
      closing_line;  // names the first failure and where its output is; empty if there was none
};

/// Starts the ranks with torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
/// MASTER_ADDR, MASTER_PORT) and TUTTI_RUN_ID, passes SIGINT, SIGTERM, SIGHUP and Ctrl-Z on, and
/// returns when all have ended. When one fails, the others are gone within 5 s, with everything
/// they have forked into their process groups. Rank 0 reads the launcher's standard input unless
/// that is a terminal; the others read nothing. Throws what spawn() throws (ranks already started
/// are killed), and core::RunError if the system refuses a socket.
JobResult run_job(const JobOptions& options);

}  // namespace tutti::launch
