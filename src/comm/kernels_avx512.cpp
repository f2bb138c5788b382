// The reduction kernels for avx512 (flags: src/CMakeLists.txt).
#include "comm/kernels.h"

namespace tutti::comm {
namespace kernels_avx512 {
#include "comm/kernels_body.inc"
}  // namespace kernels_avx512

extern const Kernels k_avx512;
const Kernels k_avx512 = {"avx512", kernels_avx512::kTypes};

}  // namespace tutti::comm
