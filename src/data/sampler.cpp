// Positions and samples of core::permute.
#include "data/sampler.h"

#include <numeric>
#include <stdexcept>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"

namespace tutti::data {

std::uint64_t sample_at(std::uint64_t position, std::uint64_t num_samples, std::uint64_t seed) {
  if (num_samples == 0) throw std::invalid_argument("an epoch without samples");
  const std::uint64_t epoch = position / num_samples;
  return core::permute(position % num_samples, num_samples,
                       core::philox_key(core::mix64(seed, epoch), "data"));
}

std::vector<std::uint64_t> batch_positions(std::uint64_t step_begin, const BatchShape& shape,
                                           int rank, int micro_index) {
  const auto [micro, dp, global] = shape;
  if (micro < 1 || dp < 1 || global < 1 || global % (std::int64_t{micro} * dp) != 0) {
    throw std::invalid_argument(fmt::format("{} sequences for {} ranks of {}", global, dp, micro));
  }
  if (rank < 0 || rank >= dp || micro_index < 0 || micro_index >= shape.num_micro_batches()) {
    throw std::invalid_argument(fmt::format("micro-batch {} of {} on rank {} of {}", micro_index,
                                            shape.num_micro_batches(), rank, dp));
  }
  std::vector<std::uint64_t> positions(static_cast<std::size_t>(micro));
  const auto offset = (static_cast<std::uint64_t>(micro_index) * static_cast<std::uint64_t>(dp) +
                       static_cast<std::uint64_t>(rank)) *
                      static_cast<std::uint64_t>(micro);
  std::iota(positions.begin(), positions.end(), step_begin + offset);
  return positions;
}

}  // namespace tutti::data
