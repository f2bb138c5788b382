// Sizes of a logical parameter.
#include "spec/param.h"

#include "spec/checked.h"

namespace tutti::spec {

std::int64_t Param::elements() const {
  Count product = 1;
  for (const std::int64_t size : shape) product = product * size;
  return product.value();
}

}  // namespace tutti::spec
