// Rows of tokens from a corpus.
#include "data/batch.h"

#include <algorithm>
#include <functional>

namespace tutti::data {
namespace {

/// One row per index: `read` copies a row's tokens and returns their number, up to sequence + 1.
MicroBatch rows_of(int sequence, std::span<const std::uint64_t> indices,
                   const std::function<std::size_t(std::uint64_t, std::span<std::int64_t>)>& read) {
  const auto width = static_cast<std::size_t>(sequence);
  MicroBatch batch{.rows = static_cast<int>(indices.size()),
                   .sequence = sequence,
                   .inputs = std::vector<std::int64_t>(indices.size() * width, 0),
                   .targets = std::vector<std::int64_t>(indices.size() * width, kNoTarget)};
  std::vector<std::int64_t> window(width + 1);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const std::size_t predictions = read(indices[row], window) - 1;
    std::copy_n(window.begin(), predictions,
                batch.inputs.begin() + static_cast<std::ptrdiff_t>(row * width));
    std::copy_n(window.begin() + 1, predictions,
                batch.targets.begin() + static_cast<std::ptrdiff_t>(row * width));
    batch.tokens += static_cast<std::int64_t>(predictions);
  }
  return batch;
}

}  // namespace

MicroBatch sample_batch(const Corpus& corpus, std::span<const std::uint64_t> samples) {
  return rows_of(corpus.sequence(), samples,
                 [&](std::uint64_t sample, std::span<std::int64_t> out) {
                   corpus.sample(sample, out);
                   return out.size();
                 });
}

MicroBatch valid_batch(const Corpus& corpus, std::span<const std::uint64_t> windows) {
  return rows_of(corpus.sequence(), windows,
                 [&](std::uint64_t window, std::span<std::int64_t> out) {
                   return corpus.valid_window(window, out);
                 });
}

}  // namespace tutti::data
