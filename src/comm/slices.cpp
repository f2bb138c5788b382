// Cutting a buffer into one share per rank.
#include "comm/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

#include "comm/shared_memory.h"

namespace tutti::comm {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / 8;  // elements

}  // namespace

std::vector<std::size_t> even_bounds(std::size_t count, std::size_t element_bytes, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t bytes = count * element_bytes;
  const std::size_t unit = (bytes >= n * kPage ? kPage : kLine) / element_bytes;
  const std::size_t units = (count + unit - 1) / unit;
  std::vector<std::size_t> bounds(n + 1);
  for (std::size_t r = 0; r <= n; ++r) bounds[r] = std::min(count, units * r / n * unit);
  return bounds;
}

std::vector<std::size_t> cut_at_blocks(std::vector<std::size_t> bounds,
                                       std::span<const std::int64_t> block_starts) {
  const std::size_t count = bounds.back();
  for (std::size_t r = 1; r + 1 < bounds.size(); ++r) {
    const auto next = std::lower_bound(block_starts.begin(), block_starts.end(),
                                       static_cast<std::int64_t>(bounds[r]));
    bounds[r] = next == block_starts.end() ? count : static_cast<std::size_t>(*next);
  }
  return bounds;
}

std::vector<std::size_t> bounds_of(std::span<const std::int64_t> counts, int ranks) {
  if (counts.size() != static_cast<std::size_t>(ranks)) {
    throw std::invalid_argument(fmt::format(
        "{} counts for a group of {} ranks: each rank needs one", counts.size(), ranks));
  }
  std::vector<std::size_t> bounds = {0};
  for (const std::int64_t count : counts) {
    if (count < 0) throw std::invalid_argument(fmt::format("count {} is negative", count));
    if (static_cast<std::size_t>(count) > kMost - bounds.back()) {
      throw std::invalid_argument(
          fmt::format("counts up to {} add up to more elements than any memory holds", count));
    }
    bounds.push_back(bounds.back() + static_cast<std::size_t>(count));
  }
  return bounds;
}

std::vector<std::size_t> bounds_of(std::span<const std::int64_t> counts, int ranks,
                                   std::size_t total) {
  auto bounds = bounds_of(counts, ranks);
  if (bounds.back() != total) {
    throw std::invalid_argument(
        fmt::format("counts add up to {} elements but the buffer has {}", bounds.back(), total));
  }
  return bounds;
}

void check_stats(const ReduceStats& stats, DType dtype, std::span<const std::size_t> bounds) {
  if (!floating(dtype)) {
    throw std::invalid_argument(
        fmt::format("statistics are of floating-point sums, the buffer holds {}", name(dtype)));
  }
  const auto starts = stats.block_starts;
  const auto count = static_cast<std::int64_t>(bounds.back());
  if (count > 0 && (starts.empty() || starts.front() != 0)) {
    throw std::invalid_argument("block starts must begin with element 0");
  }
  for (std::size_t b = 0; b < starts.size(); ++b) {
    if (starts[b] >= count || (b > 0 && starts[b] <= starts[b - 1])) {
      throw std::invalid_argument(
          fmt::format("block start {} (number {}) must be above the one before and below the "
                      "buffer's {} elements",
                      starts[b], b, count));
    }
  }
  for (const std::size_t bound : bounds) {
    const auto at = static_cast<std::int64_t>(bound);
    if (at != count && !std::binary_search(starts.begin(), starts.end(), at)) {
      throw std::invalid_argument(fmt::format(
          "a rank's share ends at element {}, inside a block: shares must end on block starts",
          at));
    }
  }
}

}  // namespace tutti::comm
