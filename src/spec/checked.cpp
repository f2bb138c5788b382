// The error behind the checked operators.
#include "spec/checked.h"

#include <cmath>

#include "core/error.h"

namespace tutti::spec {

void throw_too_large(std::int64_t a, const char* operation, std::int64_t b) {
  throw core::ConfigError(fmt::format(
      "{} {} {} is more than 64 bits hold: parameters, operations and bytes are counted exactly up "
      "to 9.2e18. Take smaller [model] sizes, [data] sequence or [batch] sizes.",
      a, operation, b));
}

Count rounded(double value) {
  constexpr double kLimit = 9223372036854774784.0;  // the largest double below 2^63
  if (!(value <= kLimit && value >= 0)) {
    throw core::ConfigError(fmt::format(
        "{} bytes are more than 64 bits hold. Take smaller [model] sizes, [data] sequence or "
        "[batch] sizes.",
        value));
  }
  return static_cast<std::int64_t>(std::llround(value));
}

}  // namespace tutti::spec
