// Hashes that stand in files and in certificates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::core {

/// XXH3, 64 bits.
std::uint64_t xxh3(std::span<const std::byte> data);
std::uint64_t xxh3(std::string_view text);

/// XXH3 of data that arrives in pieces.
class Xxh3 {
 public:
  Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  ~Xxh3();
  void update(std::span<const std::byte> data);
  [[nodiscard]] std::uint64_t digest() const;

 private:
  void* state_;
};

/// "00c0ffee..." 16 hexadecimal digits, as hashes are written in JSON; and back (throws
/// std::invalid_argument).
std::string to_hex(std::uint64_t value);
std::uint64_t from_hex(std::string_view text);

/// splitmix64's finaliser over both words.
std::uint64_t mix64(std::uint64_t a, std::uint64_t b);

/// The part of `param_hash` of elements [first, first + values.size()) of the tensor `name`:
/// sum over elements of mix64(xxh3(name) + index, bits(x)) mod 2^64. Sums over pieces, tensors and
/// ranks add up, so the whole does not depend on order or layout if every element is counted once.
std::uint64_t param_hash(std::string_view name, std::uint64_t first, std::span<const float> values);
std::uint64_t param_hash(std::string_view name, std::uint64_t first,
                         std::span<const double> values);

}  // namespace tutti::core
