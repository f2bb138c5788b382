// Causal self-attention. B sequences, T tokens, H heads, D head size, C = H x D, N = B x T.
#pragma once

#include <cstdint>

#include "model/dropout.h"
#include "parallel/stage.h"
#include "tensor/torch.h"

namespace tutti::model {

/// softmax(q k^T / sqrt(D), causal) v for a fused qkv_N3C (columns q, k, v; heads adjacent inside
/// each) -> [N, C]. LibTorch's fused kernel; with attention dropout (site.p > 0 while training) the
/// unfused path, which keeps the weights. Vaswani et al., "Attention Is All You Need" (2017).
at::Tensor causal_attention(const at::Tensor& qkv_N3C, std::int64_t heads,
                            const parallel::MicroBatch& batch, const DropoutSite& site);

}  // namespace tutti::model
