// Hashes of core/hash.h: xxHash for bytes, splitmix64 for parameters.
#include "core/hash.h"

#include <xxhash.h>

#include <bit>
#include <new>
#include <stdexcept>

#include "core/error.h"

namespace tutti::core {
namespace {

XXH3_state_t* as_state(void* state) { return static_cast<XXH3_state_t*>(state); }

/// splitmix64's output function: a bijection of 64 bits (Steele, Lea and Flood, OOPSLA 2014).
inline std::uint64_t finalise(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return finalise(finalise(a + 0x9e3779b97f4a7c15u) ^ b);
}

template <class Bits, class Float>
std::uint64_t sum_of_mixes(std::string_view name, std::uint64_t first,
                           std::span<const Float> values) {
  const std::uint64_t base = xxh3(name) + first;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    sum += mix(base + i, std::bit_cast<Bits>(values[i]));
  return sum;
}

}  // namespace

std::uint64_t xxh3(std::span<const std::byte> data) {
  return XXH3_64bits(data.data(), data.size());
}

std::uint64_t xxh3(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(as_state(state_));
}

Xxh3::~Xxh3() { XXH3_freeState(as_state(state_)); }

void Xxh3::update(std::span<const std::byte> data) {
  XXH3_64bits_update(as_state(state_), data.data(), data.size());
}

std::uint64_t Xxh3::digest() const { return XXH3_64bits_digest(as_state(state_)); }

std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t from_hex(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    const auto digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos || text.size() != 16) {
      throw std::invalid_argument(
          fmt::format("\"{}\" is not a hash: 16 digits of 0-9 and a-f", text));
    }
    value = value << 4 | digit;
  }
  if (text.empty()) throw std::invalid_argument("a hash of 16 digits is missing");
  return value;
}

std::uint64_t mix64(std::uint64_t a, std::uint64_t b) { return mix(a, b); }

std::uint64_t param_hash(std::string_view name, std::uint64_t first,
                         std::span<const float> values) {
  return sum_of_mixes<std::uint32_t>(name, first, values);
}

std::uint64_t param_hash(std::string_view name, std::uint64_t first,
                         std::span<const double> values) {
  return sum_of_mixes<std::uint64_t>(name, first, values);
}

}  // namespace tutti::core
