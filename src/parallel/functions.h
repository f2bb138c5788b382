// Layers with parameters as autograd functions of our own: backward returns the input's gradient
// and hands the weight's on as a job (parallel/weight_grads.h), so autograd never allocates, zeroes
// or adds a weight gradient. An input that needs no gradient makes no graph. Shapes: N rows (batch
// x tokens), n rows that this rank holds between layers, C hidden, I in, O out, F inner.
//
// With a tensor-parallel group products are split: the columns O of what follows a norm, the rows
// I and F of what ends in the residual stream, so that I, O of the former and F are this rank's
// shares. Without one n = N. A group outlives every graph, like every Weight.
#pragma once

#include <cstdint>

#include "parallel/tensor_parallel.h"
#include "parallel/weight_grads.h"
#include "tensor/torch.h"

namespace tutti::parallel {

/// y_nO = rows of (sum over the group of x_NI w_OI^T) + b_O. The bias may be undefined (`bias.param
/// == -1`).
at::Tensor linear(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O,
                  TensorParallel* tp = nullptr);

/// y_nO = residual_nO + linear(...).
at::Tensor linear_residual(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O,
                           const at::Tensor& residual_nO, TensorParallel* tp = nullptr);

/// What is kept of a product's input from forward to backward: itself, or only what it was made
/// of, and then it is made once more: the same bits.
enum class Keep { Input, Source };

/// y_NO = (all rows of layer_norm(x_nC)) w_OC^T + b_O, the norm as below. The bias b_O may be
/// undefined. `all_rows` is N; needed with a group only.
at::Tensor linear_of_norm(const at::Tensor& x_nC, const Weight& norm_w_C, const Weight& norm_b_C,
                          const Weight& w_OC, const Weight& b_O, Keep keep = Keep::Input,
                          TensorParallel* tp = nullptr, std::int64_t all_rows = 0);

/// y_nO = rows of (sum over the group of gelu(h_NF + c_F) w_OF^T) + b_O (+ residual_nO, which may
/// be undefined). The tanh form of GELU; its bias c_F is needed, b_O may be undefined.
at::Tensor linear_of_gelu(const at::Tensor& h_NF, const Weight& c_F, const Weight& w_OF,
                          const Weight& b_O, const at::Tensor& residual_nO, Keep keep = Keep::Input,
                          TensorParallel* tp = nullptr);

/// Layer norm over the last dim, epsilon 1e-5. Ba et al., "Layer Normalization" (2016).
at::Tensor layer_norm(const at::Tensor& x_NC, const Weight& w_C, const Weight& b_C);

}  // namespace tutti::parallel
