// Which set of kernels this processor gets.
#include "comm/kernels.h"

namespace tutti::comm {

extern const Kernels k_baseline, k_avx2, k_avx512;

std::vector<const Kernels*> runnable_kernels() {
  std::vector<const Kernels*> sets = {&k_baseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) sets.push_back(&k_avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    sets.push_back(&k_avx512);
  }
#endif
  return sets;
}

const Kernels& best_kernels() {
  static const Kernels& best = *runnable_kernels().back();
  return best;
}

}  // namespace tutti::comm
