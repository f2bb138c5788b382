// Matrix products in the types that a model computes in. What is rounded to bf16 is multiplied
// exactly and added up in fp32.
#pragma once

#include "tensor/torch.h"

namespace tutti::tensor {

/// The type in which sums, gradients and updates of values of `type` are kept: fp32 for bf16, else
/// `type` itself.
[[nodiscard]] at::ScalarType wide_type(at::ScalarType type);

/// out_MN = a_MK b_KN, or out_MN += with `add`. Matrices, operands of one type, fp64, fp32 or bf16;
/// `out` has that type or the wide one. A bf16 `out` is rounded once, from fp32, and takes no
/// `add`. Throws std::invalid_argument for other shapes and types.
void product_into(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                  bool add = false);

/// a_MK b_KN in the type of its operands.
[[nodiscard]] at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);

}  // namespace tutti::tensor
