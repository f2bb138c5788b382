// Which rank this process is: read from the variables that launchers set. The one place that knows
// their names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace tutti::launch {

/// How a process takes its place in the world. Filled by our launcher or from the variables of
/// another one.
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
  std::string from = "alone";  // "tutti", "torchrun", "mpirun", "mpiexec", "srun", "alone"
};

using GetEnv = std::function<std::optional<std::string>(const std::string&)>;

/// The process's own environment.
std::optional<std::string> process_env(const std::string& name);

/// Reads, in this order of precedence:
///   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
///              TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_USE_AGENT_STORE; our
///              launcher sets TUTTI_RUN_ID and TUTTI_STORE_FD beside the first six
///   mpirun     Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, PMIX_NAMESPACE
///   mpiexec    MPICH and Intel MPI: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
///   srun       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID,
///              SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID; a step
///              of one task (`srun --pty`) and a batch script are no ranks, they may start some
/// The last three say nothing of a store: its address is MASTER_ADDR, else 127.0.0.1 if all ranks
/// are on this host, else srun's first host; its port MASTER_PORT, else one of 20000 .. 29999 that
/// follows from the job's name (mpiexec, which has none: 29500). Empty if no launcher speaks. A
/// half-set or impossible set becomes problems that name the variables.
std::optional<JoinOptions> from_environment(const GetEnv& get,
                                            std::vector<core::Problem>& problems);

/// The first host of Slurm's lists: "n[01-03,7],x" is "n01".
std::string first_host(std::string_view list);

/// How many tasks Slurm has put on its node `node`, by SLURM_STEP_TASKS_PER_NODE: "2(x3),1" is 2 on
/// nodes 0 to 2, 1 on node 3. 0 if the list does not say.
int tasks_of_node(std::string_view list, int node);

}  // namespace tutti::launch
