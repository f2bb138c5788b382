// How a buffer is cut: one share per rank, or one part per pair of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "schedule/collective_step.h"

namespace tutti::schedule {

/// Adjacent slices, in order.
using Shares = std::vector<Slice>;

/// `parts` shares of `range` that differ by at most one unit of `align` elements, the larger first;
/// the last one takes what is left of a unit. Shares are empty where there are fewer units than
/// parts. parts >= 1, align >= 1.
Shares even_shares(Slice range, int parts, std::size_t align = 1);

/// Shares of the given sizes, from element 0.
Shares counted_shares(std::span<const std::size_t> counts);

/// From the begin of share `first` to the end of share `last - 1`; empty if first == last.
Slice joined(const Shares& shares, int first, int last);

/// Who owes whom how much in an all-to-all, and where it lies.
class Parts {
 public:
  /// counts[from * ranks + to]
  Parts(int ranks, std::span<const std::size_t> counts);
  /// Part of `from`'s Input that goes to `to`.
  [[nodiscard]] Slice input(int from, int to) const;
  /// Part of `to`'s Data that comes from `from`.
  [[nodiscard]] Slice output(int from, int to) const;
  [[nodiscard]] std::size_t input_elements(int rank) const;
  [[nodiscard]] std::size_t output_elements(int rank) const;

 private:
  int ranks_;
  std::vector<std::size_t> sent_;      // [from][to], ranks + 1 prefix sums per row
  std::vector<std::size_t> received_;  // [to][from], the same
};

}  // namespace tutti::schedule
