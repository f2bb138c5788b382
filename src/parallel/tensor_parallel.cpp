// Rows out and in. With sequence parallelism a gather and a scattered sum, without it nothing and a
// sum that everybody gets: the same bytes.
#include "parallel/tensor_parallel.h"

#include <cmath>
#include <utility>

#include "core/clock.h"
#include "tensor/products.h"

namespace tutti::parallel {

using backend::ReduceOp;

TensorParallel::TensorParallel(backend::Group group, const TensorParallelOptions& options,
                               core::Trace* trace)
    : group_(std::move(group)),
      options_(options),
      trace_(trace),
      counts_(static_cast<std::size_t>(group_.size())) {}

mesh::FlatSlice TensorParallel::rows(std::int64_t all) const {
  return splits_rows() ? share(all) : mesh::FlatSlice{0, all};
}

at::Tensor TensorParallel::enter(const at::Tensor& x_nC, std::int64_t all) {
  if (!splits_rows()) return x_nC;
  const core::Seconds began = core::now();
  at::Tensor x_NC = group_.allocate({all, x_nC.size(1)}, x_nC.scalar_type());
  wait(group_.all_gather(x_NC, x_nC.contiguous(), counts(x_NC), "rows of activations"),
       "gather rows", began);
  count_sent(x_NC, 1);
  return x_NC;
}

TensorParallel::Sum TensorParallel::start_leave(at::Tensor partial_NC) {
  if (alone()) return {.rows_nC = std::move(partial_NC), .partial_NC = {}, .pending = {}};
  Sum sum{
      .rows_nC = {}, .partial_NC = partial_NC.contiguous(), .pending = {}, .began = core::now()};
  constexpr const char* kLabel = "partial sums of activations";
  if (splits_rows()) {
    const mesh::FlatSlice own = rows(sum.partial_NC.size(0));
    sum.rows_nC = group_.allocate({own.count, sum.partial_NC.size(1)}, partial_NC.scalar_type());
    sum.pending = group_.reduce_scatter(sum.rows_nC, sum.partial_NC, counts(sum.partial_NC),
                                        ReduceOp::Sum, kLabel);
    count_sent(sum.partial_NC, 1);
  } else {
    sum.rows_nC = sum.partial_NC;
    sum.pending = group_.all_reduce(sum.partial_NC, ReduceOp::Sum, kLabel);
    count_sent(sum.partial_NC, 2);
  }
  return sum;
}

at::Tensor TensorParallel::finish(Sum sum) {
  if (!alone()) wait(std::move(sum.pending), "add up rows", sum.began);
  return std::move(sum.rows_nC);
}

at::Tensor TensorParallel::product(const at::Tensor& a, const at::Tensor& b) const {
  if (alone()) return tensor::product(a, b);
  at::Tensor y = group_.allocate({a.size(0), b.size(1)}, a.scalar_type());
  tensor::product_into(y, a, b);
  return y;
}

void TensorParallel::reduce(const at::Tensor& io, ReduceOp op, backend::Label label) {
  if (alone()) return;
  const core::Seconds began = core::now();
  wait(group_.all_reduce(io, op, label), "reduce", began);
}

std::int64_t TensorParallel::take_sent_bytes() {
  return std::llround(std::exchange(sent_bytes_, 0.0));
}

double TensorParallel::take_exposed_s() { return std::exchange(exposed_s_, 0.0); }

void TensorParallel::wait(backend::Pending pending, const char* what, core::Seconds began) {
  const core::Stopwatch watch;
  pending.wait();
  exposed_s_ += watch.elapsed().count();
  if (trace_ != nullptr && trace_->on()) trace_->add("comm", what, began, core::now());
}

void TensorParallel::count_sent(const at::Tensor& whole, int passes) {
  const double share_of_others = static_cast<double>(size() - 1) / size();
  sent_bytes_ += passes * share_of_others * static_cast<double>(whole.nbytes());
}

const std::vector<std::int64_t>& TensorParallel::counts(const at::Tensor& whole) {
  for (int rank = 0; rank < size(); ++rank) {
    counts_[static_cast<std::size_t>(rank)] =
        mesh::share(whole.size(0), rank, size()).count * whole.size(1);
  }
  return counts_;
}

}  // namespace tutti::parallel
