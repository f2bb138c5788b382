// Random numbers of core/rng.h; the vectorised inner loop of normals is in normal.cpp.
#include "core/rng.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/error.h"
#include "core/hash.h"
#include "core/normal.h"
#include "core/philox.h"

namespace tutti::core {
namespace {

template <class Float>
void fill(std::span<Float> out, std::uint64_t first, PhiloxKey key, std::uint64_t stream,
          float mean, float stddev) {
  static const normal::Fill fill_block = normal::fastest();
  normal::Block z;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t element = first + done;
    const std::size_t begin = element % normal::kNormals;
    const std::size_t count = std::min(normal::kNormals - begin, out.size() - done);
    fill_block(z, element / normal::kNormals, key, stream);
    for (std::size_t i = 0; i < count; ++i) out[done + i] = mean + stddev * z[begin + i];
    done += count;
  }
}

/// One pass of a four-round Feistel network over numbers of 2 * half_bits bits: a bijection for any
/// round function.
std::uint64_t feistel(std::uint64_t value, int half_bits, std::uint64_t size, PhiloxKey key) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < 4; ++round) {
    const PhiloxCounter counter = {static_cast<std::uint32_t>(right), round,
                                   static_cast<std::uint32_t>(size),
                                   static_cast<std::uint32_t>(size >> 32)};
    const std::uint64_t scrambled = left ^ (philox(counter, key)[0] & mask);
    left = right;
    right = scrambled;
  }
  return left << half_bits | right;
}

}  // namespace

PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) { return philox_rounds(counter, key); }

PhiloxKey philox_key(std::uint64_t seed, std::string_view purpose) {
  const std::uint64_t key = mix64(seed, xxh3(purpose));
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

void fill_normal(std::span<float> out, std::uint64_t first, PhiloxKey key, std::uint64_t stream,
                 float mean, float stddev) {
  fill(out, first, key, stream, mean, stddev);
}

void fill_normal(std::span<double> out, std::uint64_t first, PhiloxKey key, std::uint64_t stream,
                 float mean, float stddev) {
  fill(out, first, key, stream, mean, stddev);
}

double uniform(PhiloxCounter counter, PhiloxKey key) {
  const PhiloxCounter words = philox(counter, key);
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

std::uint64_t permute(std::uint64_t index, std::uint64_t size, PhiloxKey key) {
  if (index >= size)
    throw std::invalid_argument(fmt::format("permute({}) of only {} places", index, size));
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  if (half_bits == 0) return 0;
  // The network permutes up to 4 * size numbers. Walking on from every number outside [0, size)
  // closes its cycles over [0, size), and it ends: a cycle that starts inside comes back inside.
  std::uint64_t place = feistel(index, half_bits, size, key);
  while (place >= size) place = feistel(place, half_bits, size, key);
  return place;
}

}  // namespace tutti::core
