// One operation of a layer: its weights, its floating-point operations and what it keeps for the
// backward pass. A layer is a list of these, for one token; nothing here knows how many tokens
// there are or how the job is split.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "spec/checked.h"

namespace tutti::spec {

enum class Role { Embedding, Norm, Product, AttentionCore, Activation, Dropout, Router, Loss };

/// Elements of an operation's weights by who holds them.
struct Weights {
  Count split;    // cut along tensor parallelism
  Count whole;    // every tensor-parallel rank has them: norms, biases of row-parallel products
  Count experts;  // dealt out over expert parallelism
  [[nodiscard]] Count total() const { return split + whole + experts; }
};

/// What is kept from forward to backward and dropped where it is computed again.
/// Core: the attention core of an unfused attention, Korthikanti et al. (arXiv 2205.05198) sec. 5.
/// Cheap: outputs of norms and activation functions (`selective` of a config). List: everything but
/// the outputs of every second matrix product and of attention, the operator list of FSDP trainers.
/// Full: everything but the layer's input.
enum class Recompute { None, Core, Cheap, List, Full };

/// What a config's none, selective and full mean. Throws std::invalid_argument for other words.
Recompute recompute_from_name(std::string_view name);

/// Which implementations keep a tensor at all.
enum class Only { Always, Unfused, Fused, Dropout, UnfusedDropout };

/// How tensor parallelism divides a kept tensor.
enum class Place {
  Tensor,    // by columns or heads: always 1/t
  Sequence,  // by tokens: 1/t with sequence parallelism, whole without
};

enum class Width { Compute, Mask, Fp32 };  // bytes per element: of the matrix type, 1, 4

/// One tensor that lives from forward to backward.
struct Saved {
  std::string_view name;
  Count per_token;     // elements
  Count per_pair = 0;  // further elements per token and key it attends to
  Place place = Place::Tensor;
  Width width = Width::Compute;
  Only only = Only::Always;
  bool in_core = false;    // dropped by Recompute::Core
  bool cheap = false;      // dropped by Recompute::Cheap
  bool listed = false;     // kept by Recompute::List
  bool only_list = false;  // kept by Recompute::List alone
};

struct Operation {
  std::string_view name;
  Role role = Role::Product;
  Weights weights;
  Count flops_per_token;     // forward, multiply and add counted separately; matrix products only
  Count flops_per_pair = 0;  // forward, per token and key: the attention core, full square
  int backward = 2;          // backward / forward operations: 1 where no input gradient is needed
  std::vector<Saved> saved;
};

/// How many tokens one rank runs at once, and how.
struct ActivationQuestion {
  Count tokens = 1;  // of one micro-batch on this rank: micro x sequence / cp
  Count keys = 1;    // each attends to: the whole sequence
  int tp = 1;
  bool sequence_parallel = false;
  int compute_bytes = 2;  // per element of the matrix type
  bool fused_attention = true;
  bool dropout = false;
  Recompute recompute = Recompute::None;
};

/// Bytes that one rank keeps of it for one micro-batch.
Count activation_bytes(const Saved& saved, const ActivationQuestion& question);
Count activation_bytes(const Operation& operation, const ActivationQuestion& question);

/// Whether the score matrix is computed, or only the half that a causal mask leaves.
enum class Attention { FullSquare, CausalHalf };

struct Flops {
  Count forward;
  Count backward;
  [[nodiscard]] Count total() const { return forward + backward; }
};

/// Of `tokens` tokens that each attend to `keys` keys, over all ranks.
Flops flops(const Operation& operation, Count tokens, Count keys, Attention attention);

}  // namespace tutti::spec
