// Zeros that nobody has to write.
#pragma once

#include "tensor/torch.h"

namespace tutti::tensor {

/// A flat tensor of zeros in fresh pages of its own, given back with the last tensor that looks at
/// them. The kernel makes each page zero, here and now; at::zeros would write it once more. Begins
/// on 2 MiB, which is also the unit of its size: for few and large tensors.
at::Tensor zero_pages(std::int64_t elements, at::ScalarType type);

}  // namespace tutti::tensor
