// Whole numbers of 64 bits that refuse to wrap around: counts of parameters, operations and bytes.
#pragma once

#include <cstdint>

namespace tutti::spec {

/// Throws core::ConfigError: the model's sizes lead to a number beyond 64 bits.
[[noreturn]] void throw_too_large(std::int64_t a, const char* operation, std::int64_t b);

/// A count below 2^63. Sums, differences and products are exact or throw core::ConfigError.
class Count {
 public:
  constexpr Count() = default;
  constexpr Count(std::int64_t value) : value_(value) {}  // NOLINT: a number is a count
  [[nodiscard]] constexpr std::int64_t value() const { return value_; }
  [[nodiscard]] constexpr double real() const { return static_cast<double>(value_); }

  friend constexpr Count operator+(Count a, Count b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &sum)) throw_too_large(a.value_, "+", b.value_);
    return sum;
  }
  friend constexpr Count operator-(Count a, Count b) {
    std::int64_t rest = 0;
    if (__builtin_sub_overflow(a.value_, b.value_, &rest)) throw_too_large(a.value_, "-", b.value_);
    return rest;
  }
  friend constexpr Count operator*(Count a, Count b) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a.value_, b.value_, &product)) {
      throw_too_large(a.value_, "x", b.value_);
    }
    return product;
  }
  constexpr Count& operator+=(Count other) { return *this = *this + other; }
  friend constexpr auto operator<=>(Count, Count) = default;

 private:
  std::int64_t value_ = 0;
};

/// What the fullest of `parts` equal shares holds. `parts` >= 1.
constexpr Count share(Count whole, std::int64_t parts) {
  return whole.value() / parts + (whole.value() % parts != 0 ? 1 : 0);
}

/// The nearest whole number. Throws core::ConfigError beyond 63 bits.
Count rounded(double value);

}  // namespace tutti::spec
