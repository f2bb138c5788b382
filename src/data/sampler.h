// Which sample stands at which place of the training: pure functions of the global sample counter,
// nothing stored. So a run can stop and resume with any number of ranks: no sample is lost or seen
// twice.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::data {

/// The sample at `position` (global sample counter: 0 is the first sample of the first step). Epoch
/// e covers positions [e * num_samples, (e + 1) * num_samples) and shows every sample once, in an
/// order of its own. Throws std::invalid_argument if num_samples is 0.
std::uint64_t sample_at(std::uint64_t position, std::uint64_t num_samples, std::uint64_t seed);

/// How the sequences of one optimizer step are dealt out.
struct BatchShape {
  int micro = 1;   // sequences per rank and micro-batch
  int dp = 1;      // ranks that share the batch
  int global = 1;  // sequences per step, a multiple of micro * dp
  [[nodiscard]] int num_micro_batches() const { return global / (micro * dp); }
};

/// Positions of micro-batch `micro_index` of data-parallel rank `rank`, in a step that begins at
/// position `step_begin` (step * global unless the batch size has changed): step_begin +
/// micro_index * dp * micro + rank * micro + 0 .. micro - 1. The ranks and micro-batches of a step
/// cover [step_begin, step_begin + global) whatever dp is. Throws std::invalid_argument unless the
/// shape divides and rank and micro_index lie in it.
std::vector<std::uint64_t> batch_positions(std::uint64_t step_begin, const BatchShape& shape,
                                           int rank, int micro_index);

}  // namespace tutti::data
