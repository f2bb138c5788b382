// One rank of `tutti train`: wires everything, top to bottom, and holds no logic.
#include <cstdio>
#include <functional>
#include <optional>

#include "cli/rank_commands.h"
#include "cli/rank_job.h"
#include "config/parse.h"
#include "core/log.h"
#include "data/tokenizer.h"
#include "model/build.h"
#include "spec/model_json.h"
#include "tensor/runtime.h"
#include "topology/proc.h"
#include "train/checkpointer.h"
#include "train/matrix_peak.h"
#include "train/state.h"
#include "train/trainer.h"

namespace tutti::cli {
namespace {

std::string_view describe(parallel::ParamMemory memory, bool keep_gathered) {
  switch (memory) {
    case parallel::ParamMemory::Own:
      return "a copy per rank";
    case parallel::ParamMemory::Shared:
      return "one copy in pages shared by all ranks";
    case parallel::ParamMemory::Sharded:
      return keep_gathered ? "a part per rank, gathered once a step"
                           : "a part per rank, gathered layer by layer";
  }
  return "";
}

void say_start(const RankJob& job) {
  if (job.join.rank != 0) return;
  core::log::info(
      "{} parameters on {} ({} from {}), gradients reduced in {} buckets of about {} KiB",
      job.spec.num_params(), mesh::describe(job.layout), job.join.ranks == 1 ? "one rank" : "ranks",
      job.join.from, job.replica->buckets().size(), *job.plan.bucket_bytes >> 10);
  for (const std::string& line : mesh::describe_groups(job.layout)) core::log::info("{}", line);
  if (job.layout.size(mesh::Axis::Dp) > 1) {
    core::log::info("parameters: {}",
                    describe(job.replica->memory(), job.plan.keep_gathered.value_or(false)));
  }
  if (job.plan.precision->type != "fp32" || job.plan.precision->fp32_flops > 0)
    core::log::info("precision: {}", train::describe(*job.plan.precision));
  if (job.spec.model.attention_dropout > 0) {
    core::log::info("attention dropout is on: attention runs unfused and keeps its weights");
  }
}

/// A run keeps its tokenizer for `tutti sample`; training itself needs none.
void keep_tokenizer(const RankJob& job, const std::filesystem::path& folder) {
  try {
    data::find_tokenizer(job.config.data.train, job.corpus->tokenizer())->save(folder);
  } catch (const core::ConfigError& error) {
    core::log::warn("the run keeps no tokenizer, so `tutti sample` cannot use it: {}",
                    error.what());
  }
}

core::Json train_job(RankJob& job, const RankTrainOptions& options, train::StopSignal& stop) {
  const std::filesystem::path folder = job.config.run.dir;
  const core::Json model = spec::model_to_json(job.spec.model, job.config.optim.kind);
  train::Progress progress;
  if (options.resume.empty()) {
    model::initialise(job.spec, *job.replica, job.config.run.seed);
  } else {
    progress = train::load(options.resume, job.spec, *job.replica, *job.optimizer, model);
  }
  job.startup.done(options.resume.empty() ? "initialise" : "load checkpoint");
  if (job.join.rank == 0 && !options.evaluate_only)
    train::write_plan(folder / "plan.json", job.plan);
  say_start(job);

  train::Checkpointer checkpointer({.folder = folder / "checkpoints",
                                    .rank = job.join.rank,
                                    .ranks = job.join.ranks,
                                    .keep = job.config.run.keep,
                                    .timeout = core::Seconds(job.config.comm.timeout_s)},
                                   train::connect_again(job.join), &job.trace);
  const auto loader = job.loader(progress.samples);
  std::optional<train::MatrixPeak> peak;
  std::function<void()> settle;
  if (job.join.rank == 0 && !options.evaluate_only) {
    settle = [&] { keep_tokenizer(job, folder); };
    peak.emplace(train::MatrixPeakOptions{.processor = topology::processor_name(),
                                          .type = tensor::scalar_type(job.config.run.precision),
                                          .ranks = job.join.local_ranks,
                                          .threads = at::get_num_threads(),
                                          .folder = train::cache_folder()});
  }
  job.startup.done("loader");
  train::Trainer trainer({.world = *job.world,
                          .step = job.step_parts(),
                          .corpus = job.corpus,
                          .loader = *loader,
                          .checkpointer = checkpointer,
                          .stop = stop,
                          .startup = job.startup,
                          .peak = peak ? &*peak : nullptr,
                          .recompute = spec::recompute_from_name(job.config.parallel.recompute),
                          .batch = job.config.batch,
                          .optim = job.config.optim,
                          .run = job.config.run,
                          .settle = settle,
                          .model = model,
                          .layout = mesh::to_json(job.layout)},
                         progress);
  return options.evaluate_only ? trainer.evaluate_only() : trainer.train();
}

}  // namespace

int rank_train(const RankTrainOptions& options) {
  train::StopSignal stop;  // before the first thread
  const config::RunConfig config = config::load(options.config, {});
  const std::filesystem::path folder = config.run.dir;
  const launch::JoinOptions join = join_options();
  core::set_up_log({.rank = join.rank,
                    .file = (folder / "log" / fmt::format("rank-{}.txt", join.rank)).string()});
  const auto job =
      wire(config, options.resume.empty() ? std::filesystem::path{} : folder / "plan.json");
  job->startup.launched(core::Seconds(options.launched_at_s));
  try {
    const core::Json summary = train_job(*job, options, stop);
    if (job->join.rank == 0 && options.json) fmt::print("{}\n", summary.dump(2));
    return 0;
  } catch (const core::RunError& error) {
    train::write_failure_trace(folder, job->join.rank, job->trace);
    job->world->comm.abort(error.what());
    throw;
  }
}

}  // namespace tutti::cli
