// Sizes of a logical parameter.
#include "spec/param.h"

#include <fmt/format.h>

#include <stdexcept>

#include "spec/checked.h"

namespace tutti::spec {

std::int64_t Param::elements() const {
  Count product = 1;
  for (const std::int64_t size : shape) product = product * size;
  return product.value();
}

mesh::Cut cut_of(const Param& param, int rank, int ranks) {
  if (!param.tp || ranks == 1) return {};
  return {.dim = param.tp->dim, .bands = param.tp->bands, .index = rank, .of = ranks};
}

std::vector<Param> local_params(const std::vector<Param>& params, int rank, int ranks) {
  std::vector<Param> local = params;
  for (Param& param : local) {
    param.shape = mesh::part_shape(param.shape, cut_of(param, rank, ranks));
    if (param.elements() == 0) {
      throw std::invalid_argument(
          fmt::format("{} has no part for rank {} of {}", param.name, rank, ranks));
    }
  }
  return local;
}

}  // namespace tutti::spec
