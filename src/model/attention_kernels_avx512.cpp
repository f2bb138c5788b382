// The attention kernels for AVX-512 (flags: src/CMakeLists.txt).
#include "model/attention_kernels.h"

namespace tutti::model {
namespace attention_avx512 {
constexpr std::size_t kLanes = 16;  // floats of a vector
constexpr std::size_t kRows = 12;   // of a register tile: kRows x 2 sums in 32 registers
#include "model/attention_kernels_body.inc"
}  // namespace attention_avx512

extern const AttentionKernels k_attention_avx512;
const AttentionKernels k_attention_avx512 = attention_avx512::kernels("avx512");

}  // namespace tutti::model
