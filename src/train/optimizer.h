// AdamW or SGD over the pieces of parameters that this rank updates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/replica.h"
#include "spec/model_spec.h"
#include "train/options.h"

namespace tutti::train {

/// State tensors per parameter: 2 (AdamW: exp_avg, exp_avg_sq) or 1 (SGD: momentum).
std::vector<std::string> optimizer_state_names(const OptimOptions& options);

class Optimizer {
 public:
  /// State is zero. The replica outlives the optimizer.
  Optimizer(const spec::ModelSpec& spec, parallel::Replica& replica, const OptimOptions& options);

  /// One update with gradients times `grad_scale` and this rate; weight decay on matrices and
  /// embeddings only.
  void step(double lr, double grad_scale);

  /// Updates made so far: the t of the bias correction.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  /// State `which` of each piece of replica.updated(), flat, in that order.
  [[nodiscard]] const std::vector<at::Tensor>& state(std::size_t which) const {
    return states_[which];
  }
  [[nodiscard]] const std::vector<std::string>& state_names() const { return names_; }

 private:
  template <class T>
  void update(const parallel::ShardView& piece, std::size_t index, double lr, double grad_scale);

  const spec::ModelSpec& spec_;
  parallel::Replica& replica_;
  OptimOptions options_;
  std::vector<std::string> names_;
  std::vector<std::vector<at::Tensor>> states_;  // [which][piece]
  std::int64_t steps_ = 0;
};

}  // namespace tutti::train
