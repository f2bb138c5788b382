// The ten rounds of Philox4x32, inline for the loops that need millions of them. Others call
// core/rng.h.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace tutti::core {

inline constexpr std::uint64_t kPhiloxMultiply0 = 0xD2511F53, kPhiloxMultiply1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;

__attribute__((always_inline)) inline PhiloxCounter philox_rounds(PhiloxCounter c, PhiloxKey key) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kPhiloxMultiply0 * c[0];
    const std::uint64_t p1 = kPhiloxMultiply1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return c;
}

}  // namespace tutti::core
