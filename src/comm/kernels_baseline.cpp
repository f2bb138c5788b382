// The reduction kernels for what every processor of the architecture has (flags:
// src/CMakeLists.txt).
#include "comm/kernels.h"
#include "comm/lines.h"

namespace tutti::comm {
namespace kernels_baseline {
#include "comm/kernels_body.inc"
}  // namespace kernels_baseline

#if defined(__aarch64__)
constexpr const char* kName = "neon";  // part of every such processor
#else
constexpr const char* kName = "baseline";
#endif

extern const Kernels k_baseline;
const Kernels k_baseline = {kName, kernels_baseline::kTypes, kernels_baseline::copy_lines};

}  // namespace tutti::comm
