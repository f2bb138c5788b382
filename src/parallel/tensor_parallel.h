// What the ranks of one tensor-parallel group exchange: rows of activations around split products.
//
// Between layers a rank holds rows(N) of the N rows of a micro-batch: a part of them with sequence
// parallelism, else all. enter() makes all rows of them, for a product whose columns are split;
// leave() adds up what a product with split rows gave on every rank and keeps this rank's rows.
// Each is the other's backward: the f and g of Megatron. Sources: Shoeybi et al., "Megatron-LM"
// (2019); Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
// (2022).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/group.h"
#include "core/trace.h"
#include "mesh/cut.h"
#include "parallel/fault.h"

namespace tutti::parallel {

struct TensorParallelOptions {
  bool sequence = true;  // rows between layers are dealt out
  Fault fault = Fault::None;
};

/// One rank's end of the group; alone it exchanges nothing. Used by one thread. Layers and graphs
/// point at it: it outlives them and stays where it is.
class TensorParallel {
 public:
  TensorParallel() = default;
  /// `trace` may be null and outlives this object.
  TensorParallel(backend::Group group, const TensorParallelOptions& options, core::Trace* trace);

  [[nodiscard]] int rank() const { return group_.rank(); }
  [[nodiscard]] int size() const { return group_.size(); }
  [[nodiscard]] bool alone() const { return group_.size() == 1; }
  /// Whether a rank sees only its own rows between layers, so that the gradients of what is
  /// replicated there (norms, biases behind sums, positions) are partial.
  [[nodiscard]] bool splits_rows() const { return !alone() && options_.sequence; }
  [[nodiscard]] bool has(Fault fault) const { return !alone() && options_.fault == fault; }

  /// The rows of N that this rank holds between layers.
  [[nodiscard]] mesh::FlatSlice rows(std::int64_t all) const;
  /// What this rank holds of `count` heads, columns or words.
  [[nodiscard]] mesh::FlatSlice share(std::int64_t count) const {
    return mesh::share(count, rank(), size());
  }

  /// All rows [N, C] from each rank's x_nC; `all` is N.
  [[nodiscard]] at::Tensor enter(const at::Tensor& x_nC, std::int64_t all);

  /// A sum that is on its way.
  struct Sum {
    at::Tensor rows_nC;
    at::Tensor partial_NC;  // read by peers until the sum is there
    backend::Pending pending;
    core::Seconds began{};
  };
  /// This rank's rows of the sum over all ranks of partial_NC, which is used up.
  [[nodiscard]] Sum start_leave(at::Tensor partial_NC);
  [[nodiscard]] at::Tensor finish(Sum sum);
  [[nodiscard]] at::Tensor leave(at::Tensor partial_NC) {
    return finish(start_leave(std::move(partial_NC)));
  }
  /// a b in memory that peers reach: what leave() then need not copy.
  [[nodiscard]] at::Tensor product(const at::Tensor& a, const at::Tensor& b) const;

  /// Element by element over the ranks, in place: small tensors.
  void reduce(const at::Tensor& io, backend::ReduceOp op, backend::Label label);

  /// Bytes that this rank has sent for enter() and leave() since the last call, counted as a ring
  /// would send them, whatever the transport: (t - 1) / t of the whole for either of a gather and a
  /// sum of parts, twice that for a sum that everybody gets.
  [[nodiscard]] std::int64_t take_sent_bytes();
  void forget_sent_bytes() { sent_bytes_ = 0; }
  /// Seconds in which this rank stood for the group, since the last call.
  [[nodiscard]] double take_exposed_s();

 private:
  void wait(backend::Pending pending, const char* what, core::Seconds began);
  void count_sent(const at::Tensor& whole, int passes);
  /// Elements of each rank's rows.
  const std::vector<std::int64_t>& counts(const at::Tensor& whole);

  backend::Group group_;
  TensorParallelOptions options_;
  core::Trace* trace_ = nullptr;
  std::vector<std::int64_t> counts_;  // of the last exchange: a step makes no vectors
  double sent_bytes_ = 0;
  double exposed_s_ = 0;
};

}  // namespace tutti::parallel
