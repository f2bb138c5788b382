// LibTorch's process-wide settings. Set once, by cli, before the first tensor.
#pragma once

#include <span>
#include <string>

#include "tensor/torch.h"

namespace tutti::tensor {

/// Intra-op threads of this process (>= 1); inter-op work stays on the calling thread.
void set_up_runtime(int threads);

/// "fp32", "fp64" or "bf16" -> the type in which a model computes. Throws std::invalid_argument for
/// others.
at::ScalarType scalar_type(const std::string& precision);

/// "2.13.0".
std::string torch_version();

/// The tensor's elements as bytes; contiguous tensors only. The tensor keeps the memory.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

}  // namespace tutti::tensor
