// tutti train, the half without LibTorch: read, check, prepare the folder, start the ranks.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "cli/commands.h"
#include "cli/exec.h"
#include "cli/run_folder.h"
#include "cli/run_plan.h"
#include "cli/run_ranks.h"
#include "config/parse.h"
#include "config/print.h"
#include "core/clock.h"
#include "core/error.h"
#include "launch/environment.h"
#include "spec/model_json.h"
#include "topology/discover.h"

namespace tutti::cli {
namespace {

struct TrainWish {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;
  std::string plan;
  std::string resume;
  bool force = false;
  bool dry_run = false;
  bool eval_only = false;
  bool print_config = false;
  bool json = false;
};

std::vector<std::string> torch_arguments(const TrainWish& wish, const FolderPlan& folder) {
  std::vector<std::string> args = {"train", folder.config.string()};
  if (folder.resume_from) args.insert(args.end(), {"--resume", folder.resume_from->string()});
  if (wish.eval_only) args.emplace_back("--eval-only");
  if (wish.json) args.emplace_back("--json");
  return args;
}

void show(const TrainWish& wish, const RunPlan& plan) {
  if (wish.json) {
    fmt::print("{}\n", to_json(plan).dump(2));
  } else {
    fmt::print("{}\n", describe(plan));
  }
}

/// Some launcher has started this process as one rank: it becomes that rank.
int join(const TrainWish& wish, const FolderPlan& folder, const std::string& config, int rank) {
  if (rank == 0) {
    prepare_folder(folder, config);
  } else {
    await_folder(folder, config);
  }
  exec(torch_program(), torch_arguments(wish, folder));
}

int train(const TrainWish& wish) {
  if (!wish.plan.empty()) {
    throw core::ConfigError(
        "tutti train --plan needs the planner, which is not built yet: leave it out.");
  }
  const config::RunConfig config = config::load(wish.config, wish.overrides);
  if (wish.print_config) {
    fmt::print("{}", config::print(config));
    return 0;
  }
  std::vector<core::Problem> problems;
  const auto place = launch::from_environment(launch::process_env, problems);
  if (place && wish.ranks > 0 && wish.ranks != place->ranks) {
    problems.push_back(
        {fmt::format("-n {} contradicts WORLD_SIZE = {} of the launcher that started this process. "
                     "Leave -n out.",
                     wish.ranks, place->ranks)});
  }
  const RanksWanted wanted =
      place ? RanksWanted{place->ranks, place->local_ranks} : RanksWanted{wish.ranks, 0};
  const RunPlan plan = plan_run(config, wanted, topology::discover(), problems);
  if (wish.dry_run) {
    core::throw_if_any(problems);
    show(wish, plan);
    return 0;
  }
  // Only rank 0 judges the folder: to the others its own work would look like another run.
  const bool leads = !place || place->rank == 0;
  const FolderPlan folder = plan_folder(
      {plan.config.run.dir, wish.resume, wish.force || !leads, wish.eval_only}, problems);
  core::throw_if_any(problems);
  if (leads) {
    check_resume(folder, spec::model_to_json(plan.model.model, config.optim.kind), problems);
    core::throw_if_any(problems);
  }

  const std::string text = config::print(plan.config);
  if (place) return join(wish, folder, text, place->rank);
  const std::filesystem::path program = torch_program();  // before the folder is touched
  prepare_folder(folder, text);
  std::vector<std::string> args = torch_arguments(wish, folder);
  const core::Seconds began = core::now() - core::since_process_start();
  args.insert(args.end(), {"--launched-at", fmt::format("{:.6f}", began.count())});
  return run_ranks({.program = program,
                    .args = args,
                    .ranks = plan.layout.ranks(),
                    .bind = config.run.bind,
                    .threads = config.run.threads,
                    .log_folder = folder.dir / "log"});
}

}  // namespace

void add_train(Commands& commands) {
  CLI::App* command = add_command(commands.app, "train",
                                  "trains a model on this host's cores, or as a rank of a job",
                                  "tutti train examples/shakespeare.toml -n 2 optim.lr=3e-4");
  auto wish = std::make_shared<TrainWish>();
  command->add_option("CONFIG", wish->config, "the run's config, a TOML file")->required();
  command->add_option("key=value", wish->overrides,
                      "keys that override the config's (optim.lr=3e-4)");
  command->add_option("-n", wish->ranks, "ranks (default: [parallel], else one per core)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--plan", wish->plan, "(not built yet) a layout from `tutti plan`, or auto");
  command->add_option("--resume", wish->resume, "latest, or the path of a checkpoint or run");
  command->add_flag("--force", wish->force, "delete another run in [run] dir");
  command->add_flag("--dry-run", wish->dry_run,
                    "print layout, memory and steps, and start nothing");
  command->add_flag("--eval-only", wish->eval_only, "validate and stop");
  command->add_flag("--print-config", wish->print_config, "print the whole config with comments");
  command->add_flag("--json", wish->json, "print one JSON document");
  command->callback([&commands, wish] { commands.chosen = [wish] { return train(*wish); }; });
}

}  // namespace tutti::cli
