// The variables of torchrun, Open MPI, MPICH and Slurm, checked.
#include "launch/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "core/hash.h"

namespace tutti::launch {
namespace {

/// Reads the numbers one by one and remembers what is wrong with them.
class Variables {
 public:
  Variables(const GetEnv& get, std::vector<core::Problem>& problems)
      : get_(get), problems_(problems) {}

  /// A whole number in [min, max]; a problem and `fallback` if it is none.
  int number(const std::string& name, int min, int max, int fallback) {
    const std::string text = get_(name).value_or("");
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= min && value <= max) {
      return value;
    }
    problem(
        fmt::format("{} = \"{}\" is not a whole number from {} to {}. Launchers set it; unset it "
                    "and the others of its kind to start the ranks here.",
                    name, text, min, max));
    return fallback;
  }
  [[nodiscard]] bool has(const std::string& name) const { return get_(name).has_value(); }
  [[nodiscard]] std::string text(const std::string& name, const std::string& fallback) const {
    return get_(name).value_or(fallback);
  }
  void problem(std::string text) { problems_.push_back({std::move(text)}); }

 private:
  const GetEnv& get_;
  std::vector<core::Problem>& problems_;
};

constexpr int kMostRanks = 1 << 20;

/// Whether what stands there is a complete set; otherwise names what is missing.
bool complete(Variables& vars) {
  std::string missing;
  const auto need = [&](const char* name) {
    if (!vars.has(name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need("RANK");
  need("WORLD_SIZE");
  if (vars.text("WORLD_SIZE", "") != "1") {
    need("MASTER_ADDR");
    need("MASTER_PORT");
  }
  if (vars.has("LOCAL_RANK") != vars.has("LOCAL_WORLD_SIZE")) {
    need("LOCAL_RANK");
    need("LOCAL_WORLD_SIZE");
  }
  if (missing.empty()) return true;
  vars.problem(
      fmt::format("The environment describes a rank only in part: {} missing beside the "
                  "others of torchrun's variables. Set all of them, or none.",
                  missing));
  return false;
}

/// Ranks of torchrun or of our launcher.
JoinOptions from_torchrun(Variables& vars) {
  JoinOptions join;
  join.ranks = vars.number("WORLD_SIZE", 1, kMostRanks, 1);
  join.rank = vars.number("RANK", 0, join.ranks - 1, 0);
  join.local_ranks = join.ranks;  // a launcher that says nothing about hosts has one
  join.local_rank = join.rank;
  if (vars.has("LOCAL_WORLD_SIZE")) {
    join.local_ranks = vars.number("LOCAL_WORLD_SIZE", 1, join.ranks, 1);
    join.local_rank = vars.number("LOCAL_RANK", 0, join.local_ranks - 1, 0);
  }
  join.master_addr = vars.text("MASTER_ADDR", join.master_addr);
  if (vars.has("MASTER_PORT")) join.master_port = vars.number("MASTER_PORT", 1, 65535, 0);
  const bool ours = vars.has("TUTTI_RUN_ID");
  // torchrun's agent keeps its store over a restart: the count keeps the keys of the attempts apart
  join.run_id = ours ? vars.text("TUTTI_RUN_ID", "0")
                     : vars.text("TORCHELASTIC_RUN_ID", "0") + "." +
                           vars.text("TORCHELASTIC_RESTART_COUNT", "0");
  join.from = ours ? "tutti" : "torchrun";
  join.agent_store = !ours && vars.text("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  if (ours && join.rank == 0 && vars.has("TUTTI_STORE_FD")) {
    join.store_listen_fd = vars.number("TUTTI_STORE_FD", 3, kMostRanks, -1);
  }
  return join;
}

/// The variables in which another launcher says the same.
struct Names {
  const char* from;  // its program
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // nullptr: Slurm, which writes a list of all hosts
};

constexpr Names kMpirun = {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kMpiexec = {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                            "MPI_LOCALNRANKS"};
constexpr Names kSrun = {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr};

/// Which of them has started this process; nullptr: none.
const Names* launcher_of(const Variables& vars) {
  // MPI's launchers before Slurm: inside a Slurm job they start their ranks by one task per host.
  // Slurm may set PMI_RANK too, but not MPICH's local rank.
  for (const Names* names : {&kMpirun, &kMpiexec}) {
    if (vars.has(names->rank) && vars.has(names->local_rank)) return names;
  }
  // Only srun's tasks have a step; the script of a batch job has SLURM_PROCID = 0 and would start
  // its ranks here. So would the shell of `srun --pty`, a step of one task.
  const bool step = vars.has("SLURM_STEP_ID") && vars.has(kSrun.rank);
  return step && vars.text(kSrun.ranks, "1") != "1" ? &kSrun : nullptr;
}

/// What all ranks of one job have in common and no other job has; empty if the launcher says
/// nothing.
std::string job_of(const Variables& vars, const Names& names) {
  if (&names == &kMpirun) {
    return vars.text("PMIX_NAMESPACE", vars.text("OMPI_MCA_ess_base_jobid", ""));
  }
  if (&names == &kSrun) {
    return vars.text("SLURM_JOB_ID", "") + "." + vars.text("SLURM_STEP_ID", "");
  }
  return "";
}

/// Fills the store's address. The ranks cannot talk before they have it, so each derives the same:
/// the port from the job's name, below the ports that the system gives away by itself.
void fill_address(Variables& vars, const Names& names, const std::string& job, JoinOptions& join) {
  constexpr int kUsualPort = 29500;
  constexpr int kFirstPort = 20000;
  constexpr std::uint64_t kNumPorts = 10000;
  if (vars.has("MASTER_PORT")) {
    join.master_port = vars.number("MASTER_PORT", 1, 65535, 0);
  } else if (join.ranks > 1) {
    join.master_port =
        job.empty() ? kUsualPort : kFirstPort + static_cast<int>(core::xxh3(job) % kNumPorts);
  }
  if (vars.has("MASTER_ADDR")) {
    join.master_addr = vars.text("MASTER_ADDR", "");
  } else if (join.local_ranks == join.ranks) {
    join.master_addr = "127.0.0.1";
  } else if (&names == &kSrun && vars.has("SLURM_STEP_NODELIST")) {
    join.master_addr = first_host(vars.text("SLURM_STEP_NODELIST", ""));
  } else {
    vars.problem(fmt::format(
        "{} has started {} ranks, of which {} on this host: the others must learn where "
        "rank 0 is. Set MASTER_ADDR to its host for all ranks (mpirun -x MASTER_ADDR).",
        names.from, join.ranks, join.local_ranks));
  }
}

JoinOptions from_launcher(Variables& vars, const Names& names) {
  JoinOptions join;
  join.ranks = vars.number(names.ranks, 1, kMostRanks, 1);
  join.rank = vars.number(names.rank, 0, join.ranks - 1, 0);
  if (names.local_ranks != nullptr) {
    join.local_ranks = vars.number(names.local_ranks, 1, join.ranks, 1);
  } else {
    const std::string list = vars.text("SLURM_STEP_TASKS_PER_NODE", "");
    const int node = vars.number("SLURM_NODEID", 0, kMostRanks, 0);
    join.local_ranks = tasks_of_node(list, node);
    if (join.local_ranks < 1 || join.local_ranks > join.ranks) {
      vars.problem(fmt::format(
          "SLURM_STEP_TASKS_PER_NODE = \"{}\" does not say how many of the {} tasks are "
          "on node {}. srun sets it, like \"2(x3),1\".",
          list, join.ranks, node));
      join.local_ranks = 1;
    }
  }
  join.local_rank = vars.number(names.local_rank, 0, join.local_ranks - 1, 0);
  const std::string job = job_of(vars, names);
  fill_address(vars, names, job, join);
  join.run_id = job.empty() ? names.from : job;
  join.from = names.from;
  return join;
}

}  // namespace

std::optional<std::string> process_env(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::string first_host(std::string_view list) {
  std::string host;
  std::size_t i = 0;
  while (i < list.size() && list[i] != ',') {
    if (list[i] != '[') {
      host += list[i++];
      continue;
    }
    const std::size_t end = std::min(list.find(']', i), list.size());
    const std::string_view range = list.substr(i + 1, end - i - 1);
    host += range.substr(0, range.find_first_of("-,"));
    i = end + 1;
  }
  return host;
}

int tasks_of_node(std::string_view list, int node) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    int tasks = 0;
    int nodes = 1;
    const char* end = item.data() + item.size();
    const auto counted = std::from_chars(item.data(), end, tasks);
    if (counted.ec != std::errc()) return 0;
    const std::string_view times(counted.ptr, static_cast<std::size_t>(end - counted.ptr));
    if (!times.empty()) {  // "(x3)"
      if (!times.starts_with("(x") || !times.ends_with(")")) return 0;
      const auto repeated = std::from_chars(times.data() + 2, end, nodes);
      if (repeated.ec != std::errc() || repeated.ptr != end - 1) return 0;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
  return 0;
}

std::optional<JoinOptions> from_environment(const GetEnv& get,
                                            std::vector<core::Problem>& problems) {
  Variables vars(get, problems);
  const std::size_t before = problems.size();
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return vars.has(name); });
  };
  // The address alone is no rank where another launcher speaks: users set it for srun's ranks.
  const bool ranked = any({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  const Names* other = ranked ? nullptr : launcher_of(vars);
  std::optional<JoinOptions> join;
  if (other != nullptr) {
    join = from_launcher(vars, *other);
  } else if (ranked || any({"MASTER_ADDR", "MASTER_PORT"})) {
    if (complete(vars)) join = from_torchrun(vars);
  }
  if (problems.size() != before) return std::nullopt;
  return join;
}

}  // namespace tutti::launch
