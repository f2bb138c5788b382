// Bytes that one rank needs to train a model, term by term, before anything is allocated.
//
//   parameters   weights the matrix products read; shared pages count by their share (PSS)
//   gradients    what the backward pass sums into, and a trainer's second copy where it keeps one
//   optimizer    master weights and moments
//   activations  kept tensors at the schedule's peak, the block that is being run backward, and
//                scratch of kernels
//   logits       of the last stage, with their gradient
//   buffers      gathered layers, buckets, sequence-parallel gathers, a checkpoint on its way out
//   slack        what the allocator holds beyond what is asked for
//   base         program, libraries, driver
//
// Formulas: Korthikanti et al. (arXiv 2205.05198) for activations, Rajbhandari et al. (arXiv
// 1910.02054) for the stages of ZeRO.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "spec/graph.h"

namespace tutti::spec {

/// Bytes per parameter of everything that lives from step to step.
struct StateWidths {
  int weight = 4;
  int gradient = 4;       // sharded from ZeRO 2 on
  int gradient_copy = 0;  // a second, never sharded: 16-bit gradients beside their fp32 sum
  int optimizer = 8;      // sharded from ZeRO 1 on
  [[nodiscard]] int total() const { return weight + gradient + gradient_copy + optimizer; }
};

/// How a trainer holds things: the knobs in which trainers differ. The defaults are a common GPU
/// trainer in 16 bits.
struct Runtime {
  StateWidths widths = {.weight = 2, .gradient = 4, .gradient_copy = 0, .optimizer = 12};
  int compute_bytes = 2;        // per element of activations
  bool fused_attention = true;  // no score matrix is kept
  bool dropout = false;         // masks are kept
  double logit_bytes = 6;       // per logit at the loss: 16-bit logits and an fp32 copy in place
  Count logit_rows = 0;         // tokens whose logits exist at once; 0: all
  /// A recomputed block comes back whole, with the gradients of its tensors: a multiple of its
  /// activations.
  double block_work = 2;
  /// The same where nothing is recomputed: gradients of one block's tensors beside all kept ones.
  double backward_work = 0;
  Count scratch_bytes = 0;  // of kernels, whatever the layer
  int gathered_bytes = 2;   // per element of a layer gathered by ZeRO 3
  /// From ZeRO 2 on a layer's gradients are whole until they are reduced, those of embedding and
  /// head all through backward (a tied one gets its last part at the end). Else they count with
  /// what ZeRO 3 gathers.
  bool whole_gradients = false;
  double kept_for_weights = 1;     // see PipelineQuestion
  std::int64_t sharing_ranks = 1;  // that map one copy of the weights
  Count bucket_bytes = 0;          // communication buffers of fixed size
  double bucket_share = 0;         // and those that grow with the gradients, as a share of them
  int checkpoint_bytes = 0;        // per parameter, of the copy that is written; each rank its part
  Count base_bytes = 0;            // of the process, before the model
  double slack = 0;                // of activations and logits
};

/// How the job is split. Everything is at least 1.
struct MemoryLayout {
  std::int64_t tp = 1, pp = 1, dp = 1, cp = 1, ep = 1;
  int zero = 0;
  std::int64_t zero_shard = 0;  // ranks per shard group; 0: all of dp x cp
  bool keep_gathered = false;   // ZeRO 3: parameters are gathered once a step, not layer by layer
  bool sequence_parallel = false;
  std::string_view schedule = "1f1b";
  std::int64_t chunks = 1;
  std::int64_t microbatches = 1;  // of one step on one replica
  std::int64_t micro = 1;         // sequences
  Count sequence = 1;             // tokens
  Recompute recompute = Recompute::None;

  /// Replicas that share out one copy of the states, as mesh::Layout counts them.
  [[nodiscard]] std::int64_t shards() const {
    return zero > 0 && zero_shard > 0 ? zero_shard : dp * cp;
  }
};

/// Bytes of one rank.
struct MemoryTerms {
  Count parameters, gradients, optimizer, activations, logits, buffers, slack, base;
  Count shared;  // of the total: this rank's share of pages that several ranks map
  [[nodiscard]] Count total() const {
    return parameters + gradients + optimizer + activations + logits + buffers + slack + base;
  }
};

/// Share of a micro-batch that waits for its weight gradient in the orders that schedule searches;
/// schedule's own number, for Runtime::kept_for_weights.
double kept_by_searched_orders();

/// What one micro-batch on one rank is asked for.
ActivationQuestion activation_question(const MemoryLayout& layout, const Runtime& runtime);

/// Layers of each position of a pipeline (stages x chunks of them): equal; else equal with the
/// embedding and the head counted as a layer each; else the first ones hold one more.
std::int64_t layers_of_position(std::int64_t layers, std::int64_t positions, std::int64_t position);

/// One rank of pipeline stage `stage`. Throws core::ConfigError where a number exceeds 64 bits.
MemoryTerms stage_memory(const Graph& graph, const MemoryLayout& layout, const Runtime& runtime,
                         std::int64_t stage);

/// The fullest stage's, and its number in `stage` if that is not null.
MemoryTerms peak_memory(const Graph& graph, const MemoryLayout& layout, const Runtime& runtime,
                        std::int64_t* stage = nullptr);

/// What cannot be: sizes that do not divide, each with the cure. Empty: stage_memory has an answer.
std::vector<core::Problem> check_layout(const DecoderSizes& sizes, const MemoryLayout& layout);

}  // namespace tutti::spec
