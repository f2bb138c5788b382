// One optimizer step, top to bottom.
#include "train/step.h"

#include <bit>
#include <cmath>

#include "core/error.h"
#include "parallel/pipeline.h"
#include "train/batches.h"
#include "train/clip.h"

namespace tutti::train {

Step::Step(StepParts parts, std::vector<schedule::PipelineAction> actions)
    : parts_(parts), actions_(std::move(actions)) {
  sums_ = parts_.groups.dp.allocate({parts_.replica.num_blocks() + 2}, at::kDouble);
  over_tp_ = parts_.groups.tp.allocate({2}, at::kDouble);
  for (std::int64_t block = 0; block < parts_.replica.num_blocks(); ++block)
    counts_.push_back(parts_.replica.counts(parts_.replica.param_of_block(block)));
}

StepResult Step::run(std::int64_t number, data::StepBatch& batch, double lr, bool stop) {
  StepResult result;
  result.tokens = batch.global_tokens;
  const bool own_tokens_only = parts_.fault == parallel::Fault::TokenCount && parts_.shape.dp > 1;
  const double divisor = static_cast<double>(own_tokens_only ? batch.tokens : batch.global_tokens);
  const auto micro_batches =
      to_micro_batches(batch, parts_.shape, parts_.groups.dp.rank(), 1 / divisor);

  parts_.replica.begin_step(static_cast<int>(micro_batches.size()));
  parts_.replica.tensor_parallel().forget_sent_bytes();  // those of a validation
  executed_.clear();
  const double loss_sum = parallel::run_pipeline(
      actions_, parts_.stage, parts_.replica.weight_grads(), micro_batches, &executed_);
  parts_.replica.wait_grads();

  const double norm = reduce_sums(loss_sum, result, stop);
  if (!std::isfinite(norm) || !std::isfinite(result.loss))
    throw_not_finite(number, result.loss, micro_batches);
  {
    const core::TraceScope scope(parts_.trace, "compute", "optimizer");
    parts_.optimizer.step(lr, clip_scale(norm, parts_.clip));
  }
  parts_.replica.publish_params();
  result.grad_norm = norm;
  result.exposed_comm_s = parts_.replica.take_exposed_comm_s();
  result.tp_sent_bytes = parts_.replica.tensor_parallel().take_sent_bytes();
  return result;
}

// Every block of gradients has one owner among the replicas, so the sum over them is exact and the
// norm's order of additions is the model's. What tensor-parallel ranks hold is added behind it.
double Step::reduce_sums(double loss_sum, StepResult& result, bool stop) {
  const std::vector<double>& squares = parts_.replica.block_squares();
  auto* sums = sums_.data_ptr<double>();
  std::copy(squares.begin(), squares.end(), sums);
  sums[squares.size()] = loss_sum;
  sums[squares.size() + 1] = stop ? 1 : 0;
  parts_.groups.dp.all_reduce(sums_, backend::ReduceOp::Sum, "gradient norm, loss, wish to stop")
      .wait();
  result.loss = sums[squares.size()] / static_cast<double>(result.tokens);
  const double norm = norm_over_tp({sums, squares.size()}, sums[squares.size() + 1] > 0, result);
  const bool twice = parts_.fault == parallel::Fault::DoubleNorm && parts_.shape.dp > 1;
  return twice ? norm * std::sqrt(2.0) : norm;
}

// The norm of the whole model. All ranks agree on it, and on the wish to stop.
double Step::norm_over_tp(std::span<double> squares, bool stop, StepResult& result) {
  if (parts_.groups.tp.size() == 1) {
    result.stop = stop;
    return grad_norm(squares);
  }
  for (std::size_t block = 0; block < squares.size(); ++block) {
    if (!counts_[block]) squares[block] = 0;
  }
  auto* both = over_tp_.data_ptr<double>();
  const double norm = grad_norm(squares);
  both[0] = norm * norm;
  both[1] = stop ? 1 : 0;
  parts_.groups.tp.all_reduce(over_tp_, backend::ReduceOp::Sum, "gradient norm, wish to stop")
      .wait();
  result.stop = both[1] > 0;
  return std::sqrt(both[0]);
}

void Step::throw_not_finite(std::int64_t number, double loss,
                            const std::vector<parallel::MicroBatch>& micro_batches) {
  const std::optional<NotFinite> in_sum = first_not_finite();
  const std::optional<std::size_t> which = find_micro_batch(micro_batches);
  const std::optional<NotFinite> culprit = which ? first_not_finite() : in_sum;
  const std::string where =
      which ? fmt::format("micro-batch {} of {}", *which + 1, micro_batches.size())
            : std::string("the sum over micro-batches, each of which is finite");
  constexpr const char* kCure =
      "The update was not made. Resume from the last checkpoint with a smaller [optim] lr, a "
      "longer warmup_steps or a smaller clip.";
  if (culprit) {
    const spec::Param& param = parts_.spec.params[culprit->param];
    throw core::RunError(fmt::format(
        "Step {}: the gradient of {} (layer {}) is not finite; it comes from rank {}, {}. {}",
        number, param.name, param.layer, culprit->rank, where, kCure));
  }
  throw core::RunError(fmt::format("Step {}: the loss is {}, which is not finite, in {}. {}",
                                   number, loss, where, kCure));
}

// The step once more, a micro-batch at a time; nothing has been updated, and dropout falls as it
// did. The same answer on every rank.
std::optional<std::size_t> Step::find_micro_batch(
    const std::vector<parallel::MicroBatch>& micro_batches) {
  const auto one = schedule::one_stage(1);
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    parts_.replica.begin_step(1);
    const double loss_sum = parallel::run_pipeline(one, parts_.stage, parts_.replica.weight_grads(),
                                                   {micro_batches[i]}, nullptr);
    parts_.replica.wait_grads();
    StepResult result{.tokens = 1};
    if (!std::isfinite(reduce_sums(loss_sum, result, false)) || !std::isfinite(result.loss))
      return i;
  }
  return std::nullopt;
}

// The first parameter in model order, and of several ranks the first; the same on every rank.
std::optional<Step::NotFinite> Step::first_not_finite() {
  constexpr std::int64_t kRanks = std::int64_t{1} << 24;  // a number holds the parameter and a rank
  const std::vector<std::int64_t>& flags = parts_.replica.block_not_finite();
  at::Tensor all = parts_.groups.dp.allocate({static_cast<std::int64_t>(flags.size())}, at::kLong);
  std::copy(flags.begin(), flags.end(), all.data_ptr<std::int64_t>());
  parts_.groups.dp.all_reduce(all, backend::ReduceOp::Sum, "flags of what is not finite").wait();
  std::int64_t first = INT64_MAX;
  for (std::int64_t block = 0; block < all.numel() && first == INT64_MAX; ++block) {
    const auto ranks = static_cast<std::uint64_t>(all.data_ptr<std::int64_t>()[block]);
    if (ranks == 0) continue;
    const int rank =
        parts_.mesh.group({mesh::Axis::Dp, mesh::Axis::Cp}).at(std::countr_zero(ranks));
    first = parts_.replica.param_of_block(block) * kRanks + rank;
  }
  at::Tensor lowest = parts_.groups.tp.allocate({1}, at::kLong);
  *lowest.data_ptr<std::int64_t>() = first;
  parts_.groups.tp.all_reduce(lowest, backend::ReduceOp::Min, "what is not finite").wait();
  first = *lowest.data_ptr<std::int64_t>();
  if (first == INT64_MAX) return std::nullopt;
  return NotFinite{static_cast<int>(first / kRanks), static_cast<int>(first % kRanks)};
}

}  // namespace tutti::train
