// tutti schedule: draws an order of actions, proves it, and says what it costs, before anything
// runs.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/schedule_pipeline.h"
#include "core/error.h"

namespace tutti::cli {
namespace {

struct Options {
  SchedulePipelineOptions pipeline;
  std::string rows;
};

/// What the three forms of the command (NAME, --file, --rows) need and exclude.
void check_form(const Options& options, const CLI::App& command) {
  const SchedulePipelineOptions& pipeline = options.pipeline;
  const int forms = (pipeline.name.empty() ? 0 : 1) + (pipeline.file.empty() ? 0 : 1) +
                    (options.rows.empty() ? 0 : 1);
  if (forms != 1) {
    throw core::ConfigError(
        fmt::format("tutti schedule wants one of NAME, --file ORDER.csv and --rows FILE.csv, and "
                    "got {}: tutti schedule 1f1b "
                    "--stages 4 --microbatches 8",
                    forms == 0 ? "none" : "several"));
  }
  if (pipeline.name.empty()) return;
  std::vector<core::Problem> problems;
  for (const char* option : {"--stages", "--microbatches"}) {
    if (command.count(option) > 0) continue;
    problems.push_back({fmt::format(
        "tutti schedule {} needs {}: an order depends on it. Example: tutti schedule {} "
        "--stages 4 --microbatches 8",
        pipeline.name, option, pipeline.name)});
  }
  core::throw_if_any(std::move(problems));
}

}  // namespace

void add_schedule(Commands& commands) {
  CLI::App* command =
      add_command(commands.app, "schedule", "draws, proves and prices a pipeline order",
                  "tutti schedule zb-h1 --stages 4 --microbatches 8 --times 1,1,1,0.1");
  auto options = std::make_shared<Options>();
  SchedulePipelineOptions& pipeline = options->pipeline;
  command->add_option("NAME", pipeline.name,
                      "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v or zb-auto");
  command->add_option("--stages", pipeline.stages, "pipeline ranks");
  command->add_option("--microbatches", pipeline.microbatches, "micro-batches of one step");
  command->add_option("--chunks", pipeline.chunks,
                      "chunks of layers per stage (interleaved; zb-v has 2)");
  command->add_option("--times", pipeline.times,
                      "F,B,W,COMM: forward, input gradient and weight gradient of a stage, and one "
                      "transfer; uneven stages: "
                      "one group per stage, separated by ';'");
  command->add_option("--memory", pipeline.memory,
                      "activations that a stage may hold, in micro-batches (zb-auto searches "
                      "within it; default: stages)");
  command
      ->add_option("--slots", pipeline.slots, "buffers of every edge, instead of the order's own")
      ->check(CLI::PositiveNumber);
  command->add_option("--file", pipeline.file,
                      "check your own order: CSV with stage,action,microbatch,chunk");
  command->add_option("--rows", options->rows,
                      "answer every row of a CSV with id,schedule,p,m,v,tf,tb,tw,tcomm");
  command->add_option("--svg", pipeline.svg, "write the timeline to this file");
  command->add_flag("--json", pipeline.json, "print one JSON document");
  command->callback([&commands, command, options] {
    commands.chosen = [command, options] {
      check_form(*options, *command);
      int status = 0;
      std::cout << (options->rows.empty() ? schedule_pipeline(options->pipeline, status)
                                          : schedule_rows(options->rows, options->pipeline.json));
      return status;
    };
  });
}

}  // namespace tutti::cli
