// What a reduction must give, element by element, written without slices, chunks, tiles or vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
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

constexpr DType kAllTypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16,
                               DType::Int8,    DType::Int16,   DType::Int32,    DType::Int64,
                               DType::UInt8,   DType::Bool};

/// Every operation that makes sense for the type, a scaled sum among them.
inline std::vector<Reduce> all_reductions(DType dtype) {
  std::vector<Reduce> all = {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product};
  if (floating(dtype)) {
    all.insert(all.end(), {Reduce(ReduceOp::Avg), Reduce(ReduceOp::Sum, 0.3)});
  } else {
    all.insert(all.end(), {ReduceOp::BitAnd, ReduceOp::BitOr, ReduceOp::BitXor});
  }
  return all;
}

inline float fp16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(static_cast<float>(fraction), -24)
                       : sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

/// Nearest fp16, ties to even, by the step between its neighbours.
inline std::uint16_t nearest_fp16(float x) {
  if (std::isnan(x)) return 0x7e00;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(static_cast<double>(x));
  if (size >= 65520) return sign | 0x7c00;
  if (size == 0) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);
  const int step = std::max(exponent - 11, -24);  // the last place is 2^step
  const auto places = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
  return static_cast<std::uint16_t>(sign | ((step + 24) * 1024 + places));
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
      case DType::Float16:
        put(nearest_fp16(static_cast<float>(v / 16)));
        break;
      case DType::Int8:
        put(static_cast<std::int8_t>(h));
        break;
      case DType::Int16:
        put(static_cast<std::int16_t>(h));
        break;
      case DType::Int32:
        put(static_cast<std::int32_t>(v));
        break;
      case DType::Int64:
        put(static_cast<std::int64_t>(v * 1e6));
        break;
      case DType::UInt8:
        put(static_cast<std::uint8_t>(h));
        break;
      case DType::Bool:
        put(static_cast<std::uint8_t>(h % 5 < 3));
        break;
    }
  }
  return bytes;
}

/// One step of a reduction, in the type that sums are kept in.
template <class T>
T combined(ReduceOp op, T a, T b) {
  if (op == ReduceOp::Max) return b > a || b != b ? b : a;
  if (op == ReduceOp::Min) return b < a || b != b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    using Wide = unsigned __int128;  // wraps like every narrower type once it is cut off
    if (op == ReduceOp::Sum) return static_cast<T>(Wide(a) + Wide(b));
    if (op == ReduceOp::Product) return static_cast<T>(Wide(a) * Wide(b));
    if (op == ReduceOp::BitAnd) return a & b;
    if (op == ReduceOp::BitOr) return a | b;
    return a ^ b;
  } else {
    return op == ReduceOp::Product ? a * b : a + b;
  }
}

template <class T, class Get, class Put>
std::vector<std::byte> fold(const std::vector<std::vector<std::byte>>& inputs, Reduce op,
                            std::size_t run, std::size_t size, Get get, Put put) {
  std::vector<std::byte> out(inputs[0].size());
  for (std::size_t at = 0; at < out.size(); at += size) {
    const auto value = [&](std::size_t r) {
      const T x = get(&inputs[r][at]);
      return op.factor == 1 ? x : static_cast<T>(x * static_cast<T>(op.factor));
    };
    T sum{};
    for (std::size_t first = 0; first < inputs.size(); first += run) {
      T part = value(first);
      for (std::size_t r = first + 1; r < std::min(first + run, inputs.size()); ++r) {
        part = combined<T>(op.op, part, value(r));
      }
      sum = first == 0 ? part : combined<T>(op.op, sum, part);
    }
    if (op.op == ReduceOp::Avg) sum = static_cast<T>(sum / static_cast<T>(inputs.size()));
    put(&out[at], sum);
  }
  return out;
}

template <class Bits>
Bits load(const std::byte* p) {
  Bits bits;
  std::memcpy(&bits, p, sizeof(bits));
  return bits;
}

/// The reduction of all ranks' bytes, added in rank order (fp32 for half types, rounded once), or
/// in runs of so many ranks first.
inline std::vector<std::byte> reduced(const std::vector<std::vector<std::byte>>& inputs,
                                      DType dtype, Reduce op, std::size_t run = 1000) {
  const auto plain = [&]<class T>(T) {
    return fold<T>(inputs, op, run, sizeof(T), load<T>,
                   [](std::byte* p, T v) { std::memcpy(p, &v, sizeof(v)); });
  };
  const auto half = [&](float (*value)(std::uint16_t), std::uint16_t (*nearest)(float)) {
    return fold<float>(
        inputs, op, run, 2, [=](const std::byte* p) { return value(load<std::uint16_t>(p)); },
        [=](std::byte* p, float v) {
          const std::uint16_t bits = nearest(v);
          std::memcpy(p, &bits, 2);
        });
  };
  switch (dtype) {
    case DType::Float32:
      return plain(0.0F);
    case DType::Float64:
      return plain(0.0);
    case DType::BFloat16:
      return half(bf16_value, nearest_bf16);
    case DType::Float16:
      return half(fp16_value, nearest_fp16);
    case DType::Int8:
      return plain(std::int8_t{0});
    case DType::Int16:
      return plain(std::int16_t{0});
    case DType::Int32:
      return plain(std::int32_t{0});
    case DType::Int64:
      return plain(std::int64_t{0});
    case DType::UInt8:
      return plain(std::uint8_t{0});
    case DType::Bool:
      break;
  }
  if (op.op == ReduceOp::Sum) op.op = ReduceOp::BitOr;  // 0 and 1 only
  if (op.op == ReduceOp::Product) op.op = ReduceOp::BitAnd;
  return plain(std::uint8_t{0});
}

}  // namespace tutti::comm::testing
