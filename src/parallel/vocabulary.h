// The ends of a model as autograd functions, like those of parallel/functions.h. Shapes: N rows
// (batch x tokens), C hidden, V vocabulary, T context.
#pragma once

#include <cstdint>

#include "parallel/weight_grads.h"
#include "tensor/torch.h"

namespace tutti::parallel {

/// wte[tokens] + wpe[first .. first + sequence) for rows of `sequence` tokens. tokens_N is long, N
/// a multiple of `sequence`. Like every Weight here, both outlive the graph.
at::Tensor embedding(const at::Tensor& tokens_N, std::int64_t sequence, const Weight& wte_VC,
                     const Weight& wpe_TC, std::int64_t first = 0);

/// Sum over rows of -log softmax(x w^T)[target], times `scale` in the gradients only: returned is
/// the unscaled sum, fp64, a scalar. Rows with target -1 count nothing. Logits exist 256 rows at a
/// time; in training dX and the weight's gradient are made on the spot and backward returns the
/// saved dX.
at::Tensor head_loss(const at::Tensor& x_NC, const at::Tensor& targets_N, const Weight& w_VC,
                     double scale);

}  // namespace tutti::parallel
