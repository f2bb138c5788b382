// Discover the host, bind, launch, tell.
#include "cli/run_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "launch/environment.h"
#include "launch/job.h"
#include "topology/binding.h"
#include "topology/discover.h"

namespace tutti::cli {

int run_ranks(const RanksOptions& options) {
  const topology::Host host = topology::discover();
  const int cores = static_cast<int>(host.cores.size());
  const int ranks = options.ranks > 0 ? options.ranks : cores;
  const topology::Binding binding = topology::assign(host, ranks, options.bind);
  if (ranks > cores) {
    core::log::warn("{} ranks on {} cores: they share them and each step takes longer", ranks,
                    cores);
  }
  launch::JobOptions job{.program = options.program,
                         .args = options.args,
                         .ranks = ranks,
                         .cpus = binding.cpus,
                         .prefix = options.prefix,
                         .log_folder = options.log_folder,
                         .hand_store = options.hand_store};
  if (!options.keep_user_threads || !launch::process_env("OMP_NUM_THREADS")) {
    job.env["OMP_NUM_THREADS"] =
        std::to_string(options.threads > 0 ? options.threads : binding.threads);
  }
  const launch::JobResult result = launch::run_job(job);
  if (!result.closing_line.empty()) fmt::print(stderr, "tutti: {}\n", result.closing_line);
  return result.exit_status;
}

std::filesystem::path torch_program() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto built = folder / "libexec" / "tutti-torch";
  const auto installed = folder.parent_path() / "libexec" / "tutti-torch";
  for (const auto& path : {built, installed}) {
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  throw core::RunError(fmt::format(
      "The program that trains is missing: it is neither {} nor {}. Build it with `make build`.",
      built.string(), installed.string()));
}

}  // namespace tutti::cli
