// The inner loop of fill_normal, one block of normals at a time. Internal to core: others call
// core/rng.h. A header of its own so that a test can compare the instruction sets with each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/rng.h"

namespace tutti::core::normal {

inline constexpr std::size_t kCounters = 64;  // philox calls of one block
inline constexpr std::size_t kNormals =
    4 * kCounters;  // each gives four words, hence two pairs of normals

using Block = std::array<float, kNormals>;

/// Standard normals of elements [block * kNormals, (block + 1) * kNormals) of a stream. Element i
/// is number i % 4 of philox counter i / 4: Box-Muller turns its words (0, 1) into elements 0, 1
/// and (2, 3) into 2, 3.
using Fill = void (*)(Block& out, std::uint64_t block, PhiloxKey key, std::uint64_t stream);

/// With the instructions that every processor of this architecture has.
void fill_portable(Block& out, std::uint64_t block, PhiloxKey key, std::uint64_t stream);

/// The fastest for this processor; the same bits.
Fill fastest();

}  // namespace tutti::core::normal
