// What a reduction must give, element by element, written without slices, chunks, tiles or vectors.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "comm/collective.h"

namespace tutti::comm::testing {

inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Nearest bf16, ties to even, by trying both neighbours.
inline std::uint16_t nearest_bf16(float x) {
  if (std::isnan(x)) return 0x7fc0;
  const auto low = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
  if (std::isinf(x)) return low;
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double below = bf16_value(low);
  // One step beyond the largest value is infinity in bits; as a distance it is 2^128.
  const double above = std::isinf(bf16_value(high)) ? std::copysign(0x1p128, x) : bf16_value(high);
  const double to_low = std::fabs(x - below), to_high = std::fabs(above - x);
  if (to_low != to_high) return to_low < to_high ? low : high;
  return low % 2 == 0 ? low : high;
}

/// Bytes of `count` values of rank `rank`: every type, signs, some fractions, all ranks different.
inline std::vector<std::byte> values(DType dtype, int rank, std::size_t count,
                                     std::uint64_t salt = 0) {
  std::vector<std::byte> bytes(count * element_bytes(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(rank) * 77 + salt;
    h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 32;
    const double v = (static_cast<double>(h % 200001) - 100000.0) / 64.0;
    const auto put = [&](auto value) {
      std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
    };
    switch (dtype) {
      case DType::Float32:
        put(static_cast<float>(v * 1.1));
        break;
      case DType::Float64:
        put(v * 1.1);
        break;
      case DType::BFloat16:
        put(nearest_bf16(static_cast<float>(v)));
        break;
      case DType::Int32:
        put(static_cast<std::int32_t>(v));
        break;
      case DType::Int64:
        put(static_cast<std::int64_t>(v * 1e6));
        break;
    }
  }
  return bytes;
}

template <class T, class Get, class Put>
std::vector<std::byte> fold(const std::vector<std::vector<std::byte>>& inputs, ReduceOp op,
                            std::size_t size, Get get, Put put) {
  std::vector<std::byte> out(inputs[0].size());
  for (std::size_t at = 0; at < out.size(); at += size) {
    T sum = get(&inputs[0][at]);
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const T x = get(&inputs[r][at]);
      if (op == ReduceOp::Sum || op == ReduceOp::Avg) sum = static_cast<T>(sum + x);
      if (op == ReduceOp::Max && (x > sum || x != x)) sum = x;
      if (op == ReduceOp::Min && (x < sum || x != x)) sum = x;
    }
    if (op == ReduceOp::Avg) sum = static_cast<T>(sum / static_cast<T>(inputs.size()));
    put(&out[at], sum);
  }
  return out;
}

/// The reduction of all ranks' bytes, added in rank order (fp32 for bf16, rounded once).
inline std::vector<std::byte> reduced(const std::vector<std::vector<std::byte>>& inputs,
                                      DType dtype, ReduceOp op) {
  const std::size_t size = element_bytes(dtype);
  const auto plain = [&]<class T>(T) {
    return fold<T>(
        inputs, op, size,
        [](const std::byte* p) {
          T v;
          std::memcpy(&v, p, sizeof(v));
          return v;
        },
        [](std::byte* p, T v) { std::memcpy(p, &v, sizeof(v)); });
  };
  switch (dtype) {
    case DType::Float32:
      return plain(0.0F);
    case DType::Float64:
      return plain(0.0);
    case DType::Int32:
      return plain(std::int32_t{0});
    case DType::Int64:
      return plain(std::int64_t{0});
    case DType::BFloat16:
      break;
  }
  return fold<float>(
      inputs, op, size,
      [](const std::byte* p) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, p, 2);
        return bf16_value(bits);
      },
      [](std::byte* p, float v) {
        const std::uint16_t bits = nearest_bf16(v);
        std::memcpy(p, &bits, 2);
      });
}

}  // namespace tutti::comm::testing
