// The constants of this program, measured.
#include "spec/own_runtime.h"

#include <algorithm>

namespace tutti::spec {
namespace {

// parallel::head_loss makes logits of this many rows at a time, in one buffer that becomes their
// gradient.
constexpr std::int64_t kHeadRows = 256;
constexpr std::int64_t kMiB = 1 << 20;

// A rank before its model, measured (bench/memory.py): its own pages, and those of the program and
// of LibTorch, which the ranks of a host map together.
constexpr std::int64_t kOwnBase = 76 * kMiB;
constexpr std::int64_t kProgram = 56 * kMiB;
// Gradients of the block that runs backward, as a share of what it keeps. Of a GPT block's 16
// widths per token they are 8, each size at its own fullest moment, since the allocator gives
// nothing back: 4 inside the feed-forward layer, 3 of q, k and v fused, and what norms and
// residuals make (tests/parity/memory_terms_test.cpp). A block that is made again comes back whole
// beside them.
constexpr double kBackwardWork = 0.52;
// Beside these in bf16, by the same measure: attention works on fp32 copies of q, k, v, its output
// and their gradients (8 widths of 4 bytes), products on fp32 sums (4), where a block keeps about
// 32 bytes per width.
constexpr double kWideWork = 1.5;
constexpr double kSlack = 0.02;
constexpr std::int64_t kAttentionChunk = 288;  // queries (model/attention_kernels)

std::int64_t up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

std::int64_t attention_scratch(const AttentionWork& work) {
  if (work.tokens == 0) return 0;
  const std::int64_t block = work.lanes == 16 ? 96 : 48;
  const std::int64_t tokens = up(work.tokens, block), size = work.head_size,
                     padded = up(size, 2 * work.lanes);
  const std::int64_t forward = tokens * (size + padded) + block * (size + padded + tokens);
  const std::int64_t backward = tokens * (3 * padded + 1) + block * (3 * padded + 2 * size) +
                                2 * block * std::min(kAttentionChunk, tokens);
  return forward + backward;
}

Runtime own_runtime(const OwnRuntime& own) {
  const bool half = own.precision == "bf16";
  const int element = own.precision == "fp64" ? 8 : 4;
  Runtime runtime;
  // Half weights have fp32 masters beside the moments, and fp32 gradients.
  runtime.widths = {.weight = half ? 2 : element,
                    .gradient = element,
                    .gradient_copy = 0,
                    .optimizer = element * (own.optimizer_states + (half ? 1 : 0))};
  runtime.compute_bytes = half ? 2 : element;
  runtime.fused_attention = !own.attention_dropout;
  runtime.dropout = false;                       // masks are recomputed from their counters
  runtime.logit_bytes = half ? 4 + 2 : element;  // fp32; their gradients are rounded beside them
  runtime.logit_rows = kHeadRows;
  runtime.backward_work = kBackwardWork + (half ? kWideWork : 0);
  runtime.block_work = 1 + runtime.backward_work;
  if (runtime.fused_attention && own.precision != "fp64")
    runtime.scratch_bytes = 4 * own.attention.threads * attention_scratch(own.attention);
  runtime.gathered_bytes = runtime.widths.weight;
  runtime.whole_gradients = true;
  runtime.sharing_ranks = own.share_pages ? own.ranks_on_host : 1;
  runtime.checkpoint_bytes = own.checkpoints ? element * (1 + own.optimizer_states) : 0;
  runtime.base_bytes = kOwnBase + share(kProgram, own.processes_on_host);
  runtime.slack = kSlack;
  return runtime;
}

}  // namespace tutti::spec
