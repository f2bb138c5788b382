// The attention kernels for what every processor of the architecture has (flags:
// src/CMakeLists.txt).
#include "model/attention_kernels.h"

namespace tutti::model {
namespace attention_baseline {
constexpr std::size_t kLanes = 4;  // floats of a vector
constexpr std::size_t kRows = 6;   // of a register tile: kRows x 2 sums in 16 registers
#include "model/attention_kernels_body.inc"
}  // namespace attention_baseline

extern const AttentionKernels k_attention_baseline;
const AttentionKernels k_attention_baseline = attention_baseline::kernels("baseline");

}  // namespace tutti::model
