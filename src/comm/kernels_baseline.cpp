// The reduction kernels for baseline (flags: src/CMakeLists.txt).
#include "comm/kernels.h"

namespace tutti::comm {
namespace kernels_baseline {
#include "comm/kernels_body.inc"
}  // namespace kernels_baseline

extern const Kernels k_baseline;
const Kernels k_baseline = {"baseline", kernels_baseline::kTypes};

}  // namespace tutti::comm
