// GELU, tanh form, as an autograd function that keeps its input only.
#pragma once

#include "tensor/torch.h"

namespace tutti::model {

/// Elementwise, contiguous float or double. LibTorch's tanh takes an eighth of a small model's
/// step; this an exponential.
at::Tensor tanh_gelu(const at::Tensor& x);

}  // namespace tutti::model
