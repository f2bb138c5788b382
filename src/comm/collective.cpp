// Sizes and names of types and operations, as messages print them.
#include "comm/collective.h"

#include <array>

namespace tutti::comm {

std::string_view name(DType dtype) {
  constexpr std::array<std::string_view, kNumDTypes> kNames = {
      "float32", "float64", "bfloat16", "int32", "int64",
      "float16", "int8",    "int16",    "uint8", "bool"};
  return kNames.at(static_cast<std::size_t>(dtype));
}

std::string_view name(ReduceOp op) {
  constexpr std::array<std::string_view, 8> kNames = {"sum",     "avg",     "max",    "min",
                                                      "product", "bit_and", "bit_or", "bit_xor"};
  return kNames.at(static_cast<std::size_t>(op));
}

std::string_view name(Collective collective) {
  constexpr std::array<std::string_view, 11> kNames = {
      "all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier",   "send",
      "recv",       "reduce",         "scatter",    "gather",    "all_to_all"};
  return kNames.at(static_cast<std::size_t>(collective));
}

}  // namespace tutti::comm
