// Which words of `tutti schedule` go together; what would be read by nobody is refused.
#include "cli/schedule_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "schedule/collective.h"
#include "schedule/pipeline.h"

namespace tutti::cli {
namespace {

using Words = std::vector<std::string>;

const Words kOfPipelines = {"--stages", "--microbatches", "--times", "--memory", "--kept",
                            "--slots",  "--file",         "--rows",  "--beside"};
const Words kOfCollectives = {"--algorithm", "--ranks", "--elements", "--counts",
                              "--root",      "--group", "--between"};
const Words kOfOneOrder = {"--stages", "--microbatches", "--chunks", "--times", "--memory",
                           "--kept",   "--slots",        "--beside", "--svg"};

/// Refuses options that would be read by nobody; `why` says whose they are.
void refuse(const CLI::App& command, const Words& options, const std::string& why) {
  std::vector<core::Problem> problems;
  for (const std::string& option : options) {
    if (command.count(option) == 0) continue;
    problems.push_back({fmt::format("{} has no meaning here: {}. Leave it out.", option, why)});
  }
  core::throw_if_any(std::move(problems));
}

void require(const CLI::App& command, const std::string& name, const Words& options,
             const std::string& example) {
  std::vector<core::Problem> problems;
  for (const std::string& option : options) {
    if (command.count(option) > 0) continue;
    problems.push_back({fmt::format("tutti schedule {} needs {}. Example: tutti schedule {} {}",
                                    name, option, name, example)});
  }
  core::throw_if_any(std::move(problems));
}

[[noreturn]] void refuse_name(const std::string& name) {
  Words collectives;
  for (const schedule::Operation word : schedule::all_operations())
    collectives.emplace_back(schedule::name(word));
  Words all = schedule::pipeline_names();
  all.insert(all.end(), collectives.begin(), collectives.end());
  const std::string near = core::nearest(name, all);
  throw core::ConfigError(
      fmt::format("{} is neither a pipeline order nor a collective{}. Orders: {}. Collectives: {}.",
                  name, near.empty() ? "" : fmt::format("; did you mean {}", near),
                  fmt::join(schedule::pipeline_names(), ", "), fmt::join(collectives, ", ")));
}

bool is_order(const std::string& name) {
  const Words& all = schedule::pipeline_names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

void check_pipeline_form(const ScheduleOptions& options, const CLI::App& command) {
  const std::string& name = options.pipeline.name;
  const bool rows = !options.rows.empty();
  const int forms = (name.empty() ? 0 : 1) + (options.pipeline.file.empty() ? 0 : 1) + rows;
  if (forms != 1) {
    throw core::ConfigError(
        fmt::format("tutti schedule wants one of NAME, --file ORDER.csv and --rows FILE.csv, and "
                    "got {}: tutti schedule 1f1b --stages 4 --microbatches 8",
                    forms == 0 ? "none" : "several"));
  }
  if (!name.empty() && !is_order(name)) refuse_name(name);
  refuse(command, kOfCollectives, "it belongs to collectives");
  if (rows) refuse(command, kOfOneOrder, "each row of --rows has its own");
  if (name != "zb-auto") refuse(command, {"--kept"}, "only zb-auto frees activations early");
  if (options.pipeline.svg.empty())
    refuse(command, {"--beside"}, "it adds to the picture of --svg");
  if (!name.empty())
    require(command, name, {"--stages", "--microbatches"}, "--stages 4 --microbatches 8");
}

void check_collective_form(const ScheduleOptions& options, const CLI::App& command) {
  refuse(command, kOfPipelines, "it belongs to pipeline orders");
  require(command, options.pipeline.name, {"--ranks"}, "--algorithm ring --ranks 4");
}

}  // namespace tutti::cli
