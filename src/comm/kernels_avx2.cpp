// The reduction kernels for avx2 (flags: src/CMakeLists.txt).
#include "comm/kernels.h"

namespace tutti::comm {
namespace kernels_avx2 {
#include "comm/kernels_body.inc"
}  // namespace kernels_avx2

extern const Kernels k_avx2;
const Kernels k_avx2 = {"avx2", kernels_avx2::kTypes};

}  // namespace tutti::comm
