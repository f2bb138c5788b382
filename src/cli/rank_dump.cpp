// One rank of one run of `tutti verify`: a few steps, parameters and gradients written out.
#include "cli/rank_commands.h"
#include "cli/rank_job.h"
#include "config/parse.h"
#include "core/file.h"
#include "core/log.h"
#include "core/version.h"
#include "model/build.h"
#include "spec/model_json.h"
#include "train/checkpointer.h"
#include "train/lr.h"
#include "train/state.h"
#include "train/step.h"

namespace tutti::cli {

int rank_dump(const RankDumpOptions& options) {
  const config::RunConfig config = config::load(options.config, {});
  core::set_up_log({.rank = join_options().rank});
  const auto job = wire(config, {});
  model::initialise(job->spec, *job->replica, config.run.seed);
  train::Checkpointer dumps({.folder = options.out,
                             .rank = job->join.rank,
                             .ranks = job->join.ranks,
                             .keep = options.steps},
                            train::connect_again(job->join), nullptr);
  const auto loader = job->loader(0);
  train::Step step(job->step_parts(), schedule::one_stage(job->shape().num_micro_batches()));
  core::Json losses = core::Json::array();
  for (int number = 1; number <= options.steps; ++number) {
    std::optional<data::StepBatch> batch = loader->next();
    if (!batch)
      throw core::ConfigError(fmt::format("The data ends before step {}: give --steps {} or less.",
                                          number, number - 1));
    losses.push_back(
        step.run(number, *batch, train::lr_at(config.optim, config.run.steps, number - 1), false)
            .loss);
    if (number != 1 && number != options.steps) continue;
    checkpoint::Index index;
    index.tutti_version = core::version();
    index.step = number;
    index.seed = config.run.seed;
    index.model = spec::model_to_json(job->spec.model, config.optim.kind);
    index.layout = mesh::to_json(job->layout);
    dumps.save(train::Snapshot::with_gradients(job->spec, *job->replica, 1.0), std::move(index));
    dumps.wait();
  }
  // Rank 0 serves the store, in which the others look up that a dump is complete.
  job->groups.world.barrier("everybody has saved").wait();
  if (job->join.rank == 0)
    core::write_file_atomically(options.out / "losses.json", losses.dump() + "\n");
  return 0;
}

}  // namespace tutti::cli
