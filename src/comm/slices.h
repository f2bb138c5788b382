// Who reduces which elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/collective.h"

namespace tutti::comm {

/// ranks + 1 ascending bounds: rank r owns elements [b[r], b[r + 1]) of a buffer of `count`.
/// Cuts fall on 4 KiB while every rank gets one, else on cache lines; some shares may be empty.
std::vector<std::size_t> even_bounds(std::size_t count, std::size_t element_bytes, int ranks);

/// The same, but every cut falls on a block start (or the end).
std::vector<std::size_t> cut_at_blocks(std::vector<std::size_t> bounds,
                                       std::span<const std::int64_t> block_starts);

/// Bounds of given shares. Throws std::invalid_argument unless there is one non-negative count per
/// rank and they add up to `total`.
std::vector<std::size_t> bounds_of(std::span<const std::int64_t> counts, int ranks,
                                   std::size_t total);

/// The same for a sum that is not known beforehand.
std::vector<std::size_t> bounds_of(std::span<const std::int64_t> counts, int ranks);

/// Throws std::invalid_argument unless the statistics make sense: a floating-point type, block
/// starts ascending from 0 inside the buffer, every bound a block start or the end.
void check_stats(const ReduceStats& stats, DType dtype, std::span<const std::size_t> bounds);

}  // namespace tutti::comm
