// Sizes of a logical parameter.
#include "spec/param.h"

#include <functional>
#include <numeric>

namespace tutti::spec {

std::int64_t Param::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace tutti::spec
