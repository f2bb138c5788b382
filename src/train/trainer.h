// A whole run: steps, validation, checkpoints, metrics, until done, interrupted or failed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/corpus.h"
#include "spec/operation.h"
#include "train/checkpointer.h"
#include "train/matrix_peak.h"
#include "train/metrics.h"
#include "train/options.h"
#include "train/progress.h"
#include "train/startup.h"
#include "train/step.h"
#include "train/stop.h"
#include "train/world.h"

namespace tutti::train {

/// What a run is made of. All outlive the trainer.
struct TrainerParts {
  World& world;
  StepParts step;
  std::shared_ptr<const data::Corpus> corpus;
  data::Loader& loader;
  Checkpointer& checkpointer;
  StopSignal& stop;
  StartupTimes& startup;
  MatrixPeak* peak = nullptr;  // of one rank; null: not known
  spec::Recompute recompute = spec::Recompute::None;
  BatchOptions batch;
  OptimOptions optim;
  RunOptions run;
  std::function<void()> settle;  // what can wait until the first step is done; may be empty
  core::Json model;              // what a checkpoint says of the model
  core::Json layout;             // and of who wrote it
};

class Trainer {
 public:
  Trainer(TrainerParts parts, Progress progress);

  /// Trains from the given progress to run.steps, validates on everything held out and saves.
  /// Returns the summary (the same on every rank; rank 0 has written it to RUN/summary.json).
  /// Throws core::Interrupted after a stop in order (the state is saved), core::RunError if the run
  /// failed.
  core::Json train();

  /// Only the validation loss over everything held out. The run's files stay as they are.
  core::Json evaluate_only();

 private:
  bool one_step(Step& step);
  void say_tp_volume();
  void settle();
  std::optional<double> validate(bool everything);
  void save();
  void add_utilisation(StepMetrics& metrics);
  void record(const StepResult& result, double lr, double step_s, std::optional<double> valid_loss);
  void keep_trace();
  void write_trace();
  core::Json summary();
  [[nodiscard]] bool due(int every) const { return every > 0 && progress_.step % every == 0; }
  [[nodiscard]] bool leads() const { return parts_.world.rank() == 0; }

  TrainerParts parts_;
  Progress progress_;
  double flops_ = 0, hardware_flops_ = 0;  // of one sequence; hardware: with what recompute repeats
  RunFigures figures_;
  std::filesystem::path folder_;
  std::optional<core::LineFile> metrics_file_;
  std::optional<ProgressLine> line_;
  std::vector<core::TraceEvent> traced_;
  std::int64_t saved_step_ = -1;
  std::int64_t tp_sent_bytes_ = 0;  // of one step
  double first_step_end_s_ = 0;     // since the launcher, or this process, began
  bool stop_ = false;
  bool settled_ = false;
};

/// What one rank's process does when its run has failed: the last step's events go to
/// RUN/log/trace-rank-R.json.
void write_failure_trace(const std::filesystem::path& run_folder, int rank, core::Trace& trace);

}  // namespace tutti::train
