// Which set of attention kernels this processor gets.
#include "model/attention_kernels.h"

namespace tutti::model {

extern const AttentionKernels k_attention_baseline, k_attention_avx2, k_attention_avx512;

std::vector<const AttentionKernels*> runnable_attention_kernels() {
  std::vector<const AttentionKernels*> sets = {&k_attention_baseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    sets.push_back(&k_attention_avx2);
  if (__builtin_cpu_supports("avx512f")) sets.push_back(&k_attention_avx512);
#endif
  return sets;
}

const AttentionKernels& best_attention_kernels() {
  static const AttentionKernels& best = *runnable_attention_kernels().back();
  return best;
}

}  // namespace tutti::model
