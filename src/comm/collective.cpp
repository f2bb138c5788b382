// Sizes and names of types and operations, as messages print them.
#include "comm/collective.h"

#include <array>

namespace tutti::comm {

std::size_t element_bytes(DType dtype) {
  constexpr std::array<std::size_t, 5> kBytes = {4, 8, 2, 4, 8};
  return kBytes.at(static_cast<std::size_t>(dtype));
}

std::string_view name(DType dtype) {
  constexpr std::array<std::string_view, 5> kNames = {"float32", "float64", "bfloat16", "int32",
                                                      "int64"};
  return kNames.at(static_cast<std::size_t>(dtype));
}

std::string_view name(ReduceOp op) {
  constexpr std::array<std::string_view, 4> kNames = {"sum", "avg", "max", "min"};
  return kNames.at(static_cast<std::size_t>(op));
}

std::string_view name(Collective collective) {
  constexpr std::array<std::string_view, 7> kNames = {
      "all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier", "send", "recv"};
  return kNames.at(static_cast<std::size_t>(collective));
}

}  // namespace tutti::comm
