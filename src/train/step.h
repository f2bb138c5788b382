// One optimizer step: the page to read first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/connect.h"
#include "core/trace.h"
#include "data/loader.h"
#include "mesh/mesh.h"
#include "parallel/fault.h"
#include "parallel/replica.h"
#include "parallel/stage.h"
#include "schedule/pipeline_action.h"
#include "spec/model_spec.h"
#include "train/optimizer.h"

namespace tutti::train {

/// What a step needs; all outlive it.
struct StepParts {
  const spec::ModelSpec& spec;
  const mesh::Mesh& mesh;
  backend::Groups& groups;
  parallel::Stage& stage;
  parallel::Replica& replica;
  Optimizer& optimizer;
  data::BatchShape shape;
  double clip = 1.0;
  parallel::Fault fault = parallel::Fault::None;
  core::Trace* trace = nullptr;
};

struct StepResult {
  double loss = 0;       // mean over the step's tokens, before the update
  double grad_norm = 0;  // before clipping
  std::int64_t tokens = 0;
  bool stop = false;  // some rank wishes to stop
  double exposed_comm_s = 0;
  std::int64_t tp_sent_bytes = 0;  // by this rank, for split products
};

class Step {
 public:
  /// `actions`: what this rank runs, made once by schedule.
  Step(StepParts parts, std::vector<schedule::PipelineAction> actions);

  /// Forward, backward, reduction, update. Throws core::RunError before the update if a loss or
  /// gradient is not finite: it names parameter, layer, rank, step and micro-batch. `number` counts
  /// from 1; `stop`: this rank's wish.
  StepResult run(std::int64_t number, data::StepBatch& batch, double lr, bool stop);

  /// The actions of the last step, in the order in which they ran.
  [[nodiscard]] const std::vector<schedule::PipelineAction>& executed() const { return executed_; }

 private:
  struct NotFinite {
    int param, rank;
  };
  double reduce_sums(double loss_sum, StepResult& result, bool stop);
  double norm_over_tp(std::span<double> squares, bool stop, StepResult& result);
  std::optional<NotFinite> first_not_finite();
  std::optional<std::size_t> find_micro_batch(
      const std::vector<parallel::MicroBatch>& micro_batches);
  [[noreturn]] void throw_not_finite(std::int64_t number, double loss,
                                     const std::vector<parallel::MicroBatch>& micro_batches);

  StepParts parts_;
  std::vector<schedule::PipelineAction> actions_, executed_;
  at::Tensor sums_;  // block squares, then loss and the wish to stop: one small all-reduce a step
  at::Tensor over_tp_;        // square of the norm, and the wish to stop
  std::vector<bool> counts_;  // per block: it is not another tensor-parallel rank's as well
};

}  // namespace tutti::train
