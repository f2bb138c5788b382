// One optimizer step, top to bottom.
#include "train/step.h"

#include <cmath>

#include "core/error.h"
#include "parallel/pipeline.h"
#include "train/batches.h"
#include "train/clip.h"

namespace tutti::train {

Step::Step(StepParts parts, std::vector<schedule::PipelineAction> actions)
    : parts_(parts), actions_(std::move(actions)) {
  const auto blocks = static_cast<std::int64_t>(parts_.replica.block_squares().size());
  sums_ = parts_.groups.dp.allocate({blocks + 2}, at::kDouble);
}

StepResult Step::run(std::int64_t number, data::StepBatch& batch, double lr, bool stop) {
  StepResult result;
  result.tokens = batch.global_tokens;
  const bool own_tokens_only = parts_.fault == parallel::Fault::TokenCount && parts_.shape.dp > 1;
  const double divisor = static_cast<double>(own_tokens_only ? batch.tokens : batch.global_tokens);
  const auto micro_batches =
      to_micro_batches(batch, parts_.shape, parts_.groups.dp.rank(), 1 / divisor);

  parts_.replica.begin_step(static_cast<int>(micro_batches.size()));
  executed_.clear();
  const double loss_sum = parallel::run_pipeline(
      actions_, parts_.stage, parts_.replica.weight_grads(), micro_batches, &executed_);
  parts_.replica.wait_grads();

  const double norm = reduce_sums(loss_sum, result, stop);
  if (!std::isfinite(norm) || !std::isfinite(result.loss)) throw_not_finite(number, result.loss);
  {
    const core::TraceScope scope(parts_.trace, "compute", "optimizer");
    parts_.optimizer.step(lr, clip_scale(norm, parts_.clip));
  }
  parts_.replica.publish_params();
  result.grad_norm = norm;
  result.exposed_comm_s = parts_.replica.exposed_comm_s();
  return result;
}

// Every block of gradients has one owner, so the sum over ranks is exact and the norm's order of
// additions is the model's.
double Step::reduce_sums(double loss_sum, StepResult& result, bool stop) {
  const std::vector<double>& squares = parts_.replica.block_squares();
  auto* sums = sums_.data_ptr<double>();
  std::copy(squares.begin(), squares.end(), sums);
  sums[squares.size()] = loss_sum;
  sums[squares.size() + 1] = stop ? 1 : 0;
  parts_.groups.dp.all_reduce(sums_, backend::ReduceOp::Sum, "gradient norm, loss, wish to stop")
      .wait();
  result.loss = sums[squares.size()] / static_cast<double>(result.tokens);
  result.stop = sums[squares.size() + 1] > 0;
  const double norm = grad_norm({sums, squares.size()});
  const bool twice = parts_.fault == parallel::Fault::DoubleNorm && parts_.shape.dp > 1;
  return twice ? norm * std::sqrt(2.0) : norm;
}

void Step::throw_not_finite(std::int64_t number, double loss) {
  const std::vector<std::int64_t>& flags = parts_.replica.block_not_finite();
  at::Tensor all = parts_.groups.dp.allocate({static_cast<std::int64_t>(flags.size())}, at::kLong);
  std::copy(flags.begin(), flags.end(), all.data_ptr<std::int64_t>());
  parts_.groups.dp.all_reduce(all, backend::ReduceOp::Sum, "flags of what is not finite").wait();
  for (std::int64_t block = 0; block < all.numel(); ++block) {
    const auto ranks = static_cast<std::uint64_t>(all.data_ptr<std::int64_t>()[block]);
    if (ranks == 0) continue;
    const spec::Param& param = parts_.spec.params[parts_.replica.param_of_block(block)];
    throw core::RunError(fmt::format(
        "Step {}: the gradient of {} (layer {}) is not finite; it comes from rank {}. The update "
        "was not made. Resume from the last checkpoint with a smaller [optim] lr, a longer "
        "warmup_steps or a smaller clip.",
        number, param.name, param.layer, std::countr_zero(ranks)));
  }
  throw core::RunError(fmt::format(
      "Step {}: the loss is {}, which is not finite. The update was not made. Resume from the last "
      "checkpoint with a smaller [optim] lr or a longer warmup_steps.",
      number, loss));
}

}  // namespace tutti::train
