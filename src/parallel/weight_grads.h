// Where the gradients of weights go: jobs that write straight into the bucket, run at once or when
// the schedule says so.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tensor/torch.h"

namespace tutti::parallel {

/// Memory of gradients and the knowledge of who has contributed. Replica implements it.
class GradSlots {
 public:
  virtual ~GradSlots() = default;
  /// The gradient of parameter `param` (its shape), inside its bucket.
  virtual const at::Tensor& slot(int param) = 0;
  /// True for the first contribution of this step: it overwrites, later ones add.
  virtual bool first(int param) = 0;
  /// One contribution is in place.
  virtual void arrived(int param) = 0;
  /// A micro-batch's contributions are in place.
  virtual void microbatch_done() {}
};

/// The queue between a layer's backward and its weights' gradients. Zero-bubble orders are this
/// queue and nothing more: backward of the input pushes, the weight's turn runs.
class WeightGrads {
 public:
  /// Writes a contribution into dw: overwrites if `first` (beta = 0), else adds.
  using Job = std::function<void(at::Tensor& dw, bool first)>;

  /// Without slots nothing is computed (validation, sampling).
  explicit WeightGrads(GradSlots* slots) : slots_(slots) {}

  /// `deferred` keeps jobs until run(); otherwise they run at once.
  void defer(bool deferred) { deferred_ = deferred; }
  void push(int param, Job job);
  void run();
  void microbatch_done() {
    if (slots_ != nullptr) slots_->microbatch_done();
  }

  /// A contribution made of pieces that cannot wait for run() (the head's logits are reused): each
  /// piece is written now, `last_piece` completes the contribution.
  void write_now(int param, const Job& piece, bool last_piece);

 private:
  void run(int param, const Job& job);

  GradSlots* slots_;
  bool deferred_ = false;
  std::vector<std::pair<int, Job>> queue_;
};

/// A parameter as a layer sees it: its values, its number in the model and where its gradient goes.
/// The tensor is a view of the replica's memory; the replica and `grads` outlive the layer.
struct Weight {
  at::Tensor value;
  int param = -1;
  WeightGrads* grads = nullptr;
};

}  // namespace tutti::parallel
