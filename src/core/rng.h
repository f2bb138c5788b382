// Counter-based random numbers (Philox4x32-10): a value is a function of its place, never of who
// draws it or when. So initial weights, data order and dropout masks do not depend on the number of
// ranks or threads. Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011);
// tested against Random123's answers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tutti::core {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Ten rounds: four random words for this counter and key.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// The key of one purpose ("init", "data", "dropout") under one seed: seeds and purposes never
/// share a stream.
PhiloxKey philox_key(std::uint64_t seed, std::string_view purpose);

/// Fills out[i] with the normal number of global element first + i of stream `stream`
/// (for parameters: a hash of the logical name). Equal bits on every instruction set and for every
/// cut into ranges: log and sincos are polynomials of ours, compiled without contraction. Values
/// are mean + stddev * z, computed in fp32; the fp64 form gives the same values widened.
void fill_normal(std::span<float> out, std::uint64_t first, PhiloxKey key, std::uint64_t stream,
                 float mean, float stddev);
void fill_normal(std::span<double> out, std::uint64_t first, PhiloxKey key, std::uint64_t stream,
                 float mean, float stddev);

/// A uniform number in [0, 1) with 53 bits.
double uniform(PhiloxCounter counter, PhiloxKey key);

/// A keyed permutation of [0, size): place i of an epoch holds sample permute(i). A four-round
/// Feistel network over the next even power of two with cycle walking: O(1) memory, about 10 philox
/// calls per value. Throws std::invalid_argument unless index < size.
std::uint64_t permute(std::uint64_t index, std::uint64_t size, PhiloxKey key);

}  // namespace tutti::core
