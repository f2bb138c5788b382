// Dropout whose mask is a function of (sample, layer, site, token, channel): recomputed in
// backward, never stored, the same for every layout.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "mesh/reshard.h"
#include "parallel/stage.h"
#include "tensor/torch.h"

namespace tutti::model {

/// Where a dropout stands.
struct DropoutSite {
  core::PhiloxKey key;  // core::philox_key(seed, "dropout")
  double p = 0;         // probability of zero, 0 <= p < 1
  int layer = 0;        // -1 embedding
  int site = 0;  // 0 embedding, 1 after attention, 2 after the MLP, 3 + head: attention weights
};

/// x with elements dropped with probability p and the rest divided by 1 - p. x is [rows.count,
/// channels]: these of the sequences x sequence rows of the micro-batch. The identity if p == 0 or
/// gradients are disabled (validation, sampling).
at::Tensor dropout(const at::Tensor& x_nC, const parallel::MicroBatch& batch,
                   const DropoutSite& site, mesh::FlatSlice rows);

/// The factors themselves (0 or 1 / (1 - p)) for `channels` channels.
at::Tensor dropout_mask(const parallel::MicroBatch& batch, std::int64_t channels,
                        const DropoutSite& site, at::ScalarType type, mesh::FlatSlice rows);
/// Of all rows.
at::Tensor dropout_mask(const parallel::MicroBatch& batch, std::int64_t channels,
                        const DropoutSite& site, at::ScalarType type);

}  // namespace tutti::model
