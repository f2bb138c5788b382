// Layers with parameters as autograd functions of our own: backward returns the input's gradient
// and hands the weight's on as a job (parallel/weight_grads.h), so autograd never allocates, zeroes
// or adds a weight gradient. An input that needs no gradient makes no graph. Shapes: N rows (batch
// x tokens), C hidden, I in, O out, F inner.
#pragma once

#include <cstdint>

#include "parallel/weight_grads.h"
#include "tensor/torch.h"

namespace tutti::parallel {

/// y_NO = x_NI w_OI^T + b_O. The bias may be undefined (`bias.param == -1`).
at::Tensor linear(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O);

/// y_NO = residual_NO + x_NI w_OI^T + b_O.
at::Tensor linear_residual(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O,
                           const at::Tensor& residual_NO);

/// What is kept of a product's input from forward to backward: itself, or only what it was made
/// of, and then it is made once more: the same bits.
enum class Keep { Input, Source };

/// y_NO = layer_norm(x_NC) w_OC^T + b_O, the norm as below. The bias b_O may be undefined.
at::Tensor linear_of_norm(const at::Tensor& x_NC, const Weight& norm_w_C, const Weight& norm_b_C,
                          const Weight& w_OC, const Weight& b_O, Keep keep = Keep::Input);

/// y_NO = gelu(h_NF + c_F) w_OF^T + b_O (+ residual_NO, which may be undefined). The tanh form of
/// GELU; its bias c_F is needed, b_O may be undefined.
at::Tensor linear_of_gelu(const at::Tensor& h_NF, const Weight& c_F, const Weight& w_OF,
                          const Weight& b_O, const at::Tensor& residual_NO,
                          Keep keep = Keep::Input);

/// Layer norm over the last dim, epsilon 1e-5. Ba et al., "Layer Normalization" (2016).
at::Tensor layer_norm(const at::Tensor& x_NC, const Weight& w_C, const Weight& b_C);

}  // namespace tutti::parallel
