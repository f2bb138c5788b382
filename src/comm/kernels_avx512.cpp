// The reduction kernels for avx512 (flags: src/CMakeLists.txt).
#include "comm/kernels.h"
#include "comm/lines.h"

namespace tutti::comm {
namespace kernels_avx512 {
#include "comm/kernels_body.inc"
}  // namespace kernels_avx512

extern const Kernels k_avx512;
const Kernels k_avx512 = {"avx512", kernels_avx512::kTypes, kernels_avx512::copy_lines};

}  // namespace tutti::comm
