// Causal attention of one head, forward and backward, fp32, over rows of a fused tensor. No tensors
// here. One source (attention_kernels_body.inc) compiled for several instruction sets, which round
// differently: fused multiply-adds are used where there are any.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::model {

/// One head of one sequence. Rows lie apart, so that a head can be read and written where it stands
/// in [tokens, 3 x heads x size].
struct AttentionHead {
  std::size_t tokens;  // >= 1
  std::size_t size;    // floats of a row, a multiple of kHeadSizeStep
  std::size_t stride;  // floats from one row of q, k, v or of a gradient of these to the next
  const float *q, *k, *v;
  std::size_t y_stride;  // the same for y and gy
};

inline constexpr std::size_t kHeadSizeStep = 16;

/// What backward reads of forward, and where its gradients go; none may overlap another.
struct AttentionGrads {
  const float *y, *gy;
  const float* log_sums;  // `tokens` of them, as forward gave them
  float *gq, *gk, *gv;    // overwritten
  bool add_keys = false;  // but gk and gv added to: heads after the first that share a key head
};

/// A full set, for one instruction set. `scratch` is the caller's, any contents, 64-byte aligned;
/// the counts are floats.
struct AttentionKernels {
  const char* name;  // "baseline", "avx2", "avx512"
  std::size_t (*forward_scratch)(std::size_t tokens, std::size_t size);
  /// y = softmax(q k^T / sqrt(size), causal) v. log_sums: per row the log of the softmax's sum.
  void (*forward)(const AttentionHead& head, float* y, float* log_sums, float* scratch);
  std::size_t (*backward_scratch)(std::size_t tokens, std::size_t size);
  void (*backward)(const AttentionHead& head, const AttentionGrads& grads, float* scratch);
};

/// The best set of this processor, chosen by cpuid.
const AttentionKernels& best_attention_kernels();

/// All sets that this processor can run, the plain one first: for tests and benchmarks.
std::vector<const AttentionKernels*> runnable_attention_kernels();

}  // namespace tutti::model
