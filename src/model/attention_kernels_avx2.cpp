// The attention kernels for AVX2 with fused multiply-add (flags: src/CMakeLists.txt).
#include "model/attention_kernels.h"

namespace tutti::model {
namespace attention_avx2 {
constexpr std::size_t kLanes = 8;  // floats of a vector
constexpr std::size_t kRows = 6;   // of a register tile: kRows x 2 sums in 16 registers
#include "model/attention_kernels_body.inc"
}  // namespace attention_avx2

extern const AttentionKernels k_attention_avx2;
const AttentionKernels k_attention_avx2 = attention_avx2::kernels("avx2");

}  // namespace tutti::model
