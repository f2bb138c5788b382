// Jobs run now or later, in the order in which they were pushed.
#include "parallel/weight_grads.h"

namespace tutti::parallel {

void WeightGrads::push(int param, Job job) {
  if (slots_ == nullptr) return;
  if (deferred_) {
    queue_.emplace_back(param, std::move(job));
  } else {
    run(param, job);
  }
}

void WeightGrads::run() {
  // Taken out first: a job may throw, and must not run twice.
  const auto jobs = std::exchange(queue_, {});
  for (const auto& [param, job] : jobs) run(param, job);
}

void WeightGrads::run(int param, const Job& job) { write_now(param, job, /*last_piece=*/true); }

void WeightGrads::write_now(int param, const Job& piece, bool last_piece) {
  if (slots_ == nullptr) return;
  const at::NoGradGuard no_grad;
  at::Tensor dw = slots_->slot(param);
  piece(dw, slots_->first(param));
  if (last_piece) slots_->arrived(param);
}

}  // namespace tutti::parallel
