// Tokens in the form in which a step takes them: rows of inputs and the targets one place further.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/corpus.h"

namespace tutti::data {

/// The target of a place that predicts nothing (the filled-up end of a short validation window).
/// PyTorch's losses ignore this number too.
inline constexpr std::int64_t kNoTarget = -100;

/// Row-major [rows, sequence].
struct MicroBatch {
  int rows = 0;
  int sequence = 0;
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
  std::int64_t tokens = 0;  // targets that count: the loss is summed over them
};

/// These samples of an epoch, one per row. Every target counts. Throws as Corpus::sample.
MicroBatch sample_batch(const Corpus& corpus, std::span<const std::uint64_t> samples);

/// These validation windows, one per row, short ones filled up with input 0 and kNoTarget. Throws
/// as Corpus::valid_window.
MicroBatch valid_batch(const Corpus& corpus, std::span<const std::uint64_t> windows);

}  // namespace tutti::data
