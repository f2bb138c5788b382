// Tokens from data as the tensors that a stage takes.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loader.h"
#include "parallel/stage.h"

namespace tutti::train {

/// The step's micro-batches; views of `batch`, which must outlive them. `scale` = 1 / tokens of all
/// ranks.
std::vector<parallel::MicroBatch> to_micro_batches(data::StepBatch& batch,
                                                   const data::BatchShape& shape, int rank,
                                                   double scale);

/// A batch without dropout or gradients (validation). A view of `batch`.
parallel::MicroBatch to_micro_batch(data::MicroBatch& batch);

}  // namespace tutti::train
