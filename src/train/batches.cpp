// Views of token rows as tensors.
#include "train/batches.h"

#include "data/sampler.h"

namespace tutti::train {

parallel::MicroBatch to_micro_batch(data::MicroBatch& batch) {
  const auto view = [&](std::vector<std::int64_t>& ids) {
    return at::from_blob(ids.data(), {static_cast<std::int64_t>(ids.size())}, at::kLong);
  };
  parallel::MicroBatch result;
  result.tokens_N = view(batch.inputs);
  result.targets_N = view(batch.targets);
  result.sequence = batch.sequence;
  return result;
}

std::vector<parallel::MicroBatch> to_micro_batches(data::StepBatch& batch,
                                                   const data::BatchShape& shape, int rank,
                                                   double scale) {
  std::vector<parallel::MicroBatch> result;
  for (std::size_t i = 0; i < batch.micro_batches.size(); ++i) {
    parallel::MicroBatch& micro = result.emplace_back(to_micro_batch(batch.micro_batches[i]));
    const auto positions =
        data::batch_positions(batch.first_sample, shape, rank, static_cast<int>(i));
    micro.samples.assign(positions.begin(), positions.end());
    micro.scale = scale;
  }
  return result;
}

}  // namespace tutti::train
