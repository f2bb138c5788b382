// Bytes that a rank sends in a training step, by formula.
#pragma once

#include <cstdint>

#include "spec/memory.h"
#include "spec/model_spec.h"

namespace tutti::spec {

struct TpVolume {
  std::int64_t tp = 1;             // tensor-parallel ranks
  std::int64_t rows = 1;           // sequences x tokens of one micro-batch
  std::int64_t microbatches = 1;   // of one step
  std::int64_t element_bytes = 4;  // of activations
  Recompute recompute = Recompute::None;
  bool sequence = true;  // rows between products are dealt out
};

/// Bytes of activations and their gradients that a rank of a GPT sends over its tensor-parallel
/// group in a step, each exchange of W bytes counted as a ring's: (t - 1) / t W for a gather or a
/// scattered sum, twice that for a sum that all get. Per layer and micro-batch 2 all-reduces
/// forward and 2 backward of W = rows x hidden elements (or the same bytes as gathers and
/// scattered sums), one more pair of each with full recompute, 2 gathers more with selective
/// recompute of scattered rows; at both ends of the model one all-reduce each. Source: Korthikanti
/// et al., "Reducing Activation Recomputation in Large Transformer Models" (2022), sec. 4.2. The
/// few numbers per row that cross-entropy exchanges are not counted.
double tp_bytes_per_step(const ModelOptions& model, const TpVolume& volume);

}  // namespace tutti::spec
