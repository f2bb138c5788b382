// The reduction kernels for avx2 (flags: src/CMakeLists.txt).
#include "comm/kernels.h"
#include "comm/lines.h"

namespace tutti::comm {
namespace kernels_avx2 {
#include "comm/kernels_body.inc"
}  // namespace kernels_avx2

extern const Kernels k_avx2;
const Kernels k_avx2 = {"avx2", kernels_avx2::kTypes, kernels_avx2::copy_lines};

}  // namespace tutti::comm
