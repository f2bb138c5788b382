// tutti schedule: draws an order of actions, proves it and prices it, before anything runs.
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/schedule_form.h"

namespace tutti::cli {
namespace {

void add_pipeline_options(CLI::App& command, ScheduleOptions& options) {
  SchedulePipelineOptions& pipeline = options.pipeline;
  command.add_option("--stages", pipeline.stages, "pipeline ranks");
  command.add_option("--microbatches", pipeline.microbatches, "micro-batches of one step");
  command.add_option("--chunks", pipeline.chunks,
                     "chunks of layers per stage (interleaved; zb-v has 2); pieces of a chain");
  command.add_option("--times", pipeline.times,
                     "F,B,W,COMM: forward, input gradient and weight gradient of a stage, and one "
                     "transfer; uneven stages: one group per stage, separated by ';'");
  command.add_option("--memory", pipeline.memory,
                     "activations that a stage may hold, in micro-batches (zb-auto searches within "
                     "it; default: stages)");
  command.add_option("--kept", pipeline.kept,
                     "zb-auto: share of a micro-batch's activations that stays between input and "
                     "weight gradient (default 32/74; 1: all of them)");
  command.add_option("--slots", pipeline.slots,
                     "buffers of every edge, instead of the order's own");
  command.add_option("--file", pipeline.file,
                     "check your own order: CSV with stage,action,microbatch,chunk");
  command.add_option("--rows", options.rows,
                     "answer every row of a CSV with id,schedule,p,m,v,tf,tb,tw,tcomm");
  command
      .add_option("--beside", pipeline.beside,
                  "NAME or NAME:CHUNKS: another order in the same picture")
      ->take_all();
}

void add_collective_options(CLI::App& command, ScheduleCollectiveOptions& collective) {
  command.add_option("--algorithm", collective.algorithm, "of a collective: ring, tree, ...")
      ->capture_default_str();
  command.add_option("--ranks", collective.ranks, "of a collective's group");
  command.add_option("--elements", collective.elements, "of a collective; default: 4 per rank");
  command.add_option("--counts", collective.counts, "elements per rank, where they differ")
      ->delimiter(',');
  command.add_option("--root", collective.root, "of broadcast, reduce, scatter, gather");
  command.add_option("--group", collective.group, "hierarchical: ranks per group");
  command.add_option("--between", collective.between, "hierarchical: algorithm between groups")
      ->capture_default_str();
}

int run_collective(ScheduleOptions& options, const CLI::App& command) {
  ScheduleCollectiveOptions& collective = options.collective;
  collective.operation = options.pipeline.name;
  collective.chunks = options.pipeline.chunks;
  collective.svg = options.pipeline.svg;
  collective.json = options.pipeline.json;
  check_collective_form(options, command);
  int status = 0;
  std::cout << schedule_collective(collective, status);
  return status;
}

int run(ScheduleOptions& options, const CLI::App& command) {
  if (is_collective(options.pipeline.name)) return run_collective(options, command);
  check_pipeline_form(options, command);
  int status = 0;
  std::cout << (options.rows.empty() ? schedule_pipeline(options.pipeline, status)
                                     : schedule_rows(options.rows, options.pipeline.json));
  return status;
}

}  // namespace

void add_schedule(Commands& commands) {
  CLI::App* command = add_command(
      commands.app, "schedule", "draws, proves and prices a pipeline order or a collective",
      "tutti schedule zb-h1 --stages 4 --microbatches 8 --times 1,1,1,0.1\n"
      "         tutti schedule all-reduce --algorithm ring --ranks 4");
  auto options = std::make_shared<ScheduleOptions>();
  command->add_option("NAME", options->pipeline.name,
                      "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v or zb-auto; or a collective "
                      "such as all-reduce");
  add_pipeline_options(*command, *options);
  add_collective_options(*command, options->collective);
  command->add_option("--svg", options->pipeline.svg, "write the picture to this file");
  command->add_flag("--json", options->pipeline.json, "print one JSON document");
  command->callback([&commands, command, options] {
    commands.chosen = [command, options] { return run(*options, *command); };
  });
}

}  // namespace tutti::cli
