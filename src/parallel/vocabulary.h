// The ends of a model as autograd functions, like those of parallel/functions.h. Shapes: N rows
// (batch x tokens), n rows that this rank holds between layers, C hidden, V vocabulary, v this
// rank's part of it (a tensor-parallel group cuts it into neighbouring words; without one v = V and
// n = N), T context.
#pragma once

#include <cstdint>

#include "parallel/tensor_parallel.h"
#include "parallel/weight_grads.h"
#include "tensor/torch.h"

namespace tutti::parallel {

/// The words that this rank holds.
struct Vocabulary {
  std::int64_t words = 0;        // of all ranks: V
  TensorParallel* tp = nullptr;  // outlives every graph

  [[nodiscard]] mesh::FlatSlice own() const;
};

/// This rank's rows of wte[tokens] + wpe[first .. first + sequence), for N rows of `sequence`
/// tokens. tokens_N is long, N a multiple of `sequence`. Like every Weight here, both outlive the
/// graph.
at::Tensor embedding(const at::Tensor& tokens_N, std::int64_t sequence, const Weight& wte_vC,
                     const Weight& wpe_TC, const Vocabulary& vocabulary, std::int64_t first = 0);

/// Sum over rows of -log softmax(x w^T)[target], times `scale` in the gradients only: returned is
/// the unscaled sum over all rows and words, fp64, a scalar, the same on every rank of the group.
/// Rows with a target below 0 count nothing. Logits exist 256 rows at a time and are never
/// gathered: ranks exchange three numbers a row. In training dX and the weight's gradient are made
/// on the spot and backward returns the saved dX.
at::Tensor head_loss(const at::Tensor& x_nC, const at::Tensor& targets_N, const Weight& w_vC,
                     double scale, const Vocabulary& vocabulary);

}  // namespace tutti::parallel
