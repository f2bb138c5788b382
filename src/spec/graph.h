// A model as layers of operations: what memory, FLOPs, planner and simulator walk. Layers that are
// alike stand once with their number, so a graph is small and quick to make at any size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/operation.h"
#include "spec/options.h"

namespace tutti::spec {

/// `count` layers of the same operations.
struct LayerKind {
  std::string_view name;
  Count count = 1;
  std::vector<Operation> operations;

  [[nodiscard]] Weights weights() const;  // of one layer
  /// Bytes that one layer keeps for one micro-batch; with Recompute::Full its input alone.
  [[nodiscard]] Count activation_bytes(const ActivationQuestion& question) const;
  Count input_per_token;  // elements of the layer's input
};

/// Embedding, blocks in order, head. The unit of a ResNet is an image instead of a token.
struct Graph {
  LayerKind embedding;
  std::vector<LayerKind> blocks;
  LayerKind head;
  Count tied = 0;              // parameters of the head that are the embedding's: counted once
  Count vocab = 0;             // logits per token
  Count tokens_per_image = 0;  // 0: language model; else the unit is an image

  [[nodiscard]] Count layers() const;
  [[nodiscard]] Count parameters() const;  // elements, tied ones once
  /// Forward and backward of one sequence (or image) of `sequence` tokens.
  [[nodiscard]] Flops flops(Count sequence, Attention attention) const;
};

/// Sizes of a decoder, free of the config's 32 bits and defaults.
struct DecoderSizes {
  Count layers, hidden, heads, kv_heads, ffn, vocab;
  Count positions = 0;  // rows of a learned position embedding; 0: rotary
  bool gated = false;   // SwiGLU with RMS norms and no biases; else GELU, layer norms, biases
  bool tied = false;
  /// Keys and values from a low-rank latent vector, DeepSeek-V2 (arXiv 2405.04434) sec. 2.1, with
  /// its ranks 1536 and 512 and its head sizes 128 + 64; kv_heads has no meaning then.
  bool latent = false;
  Count experts = 0, top_k = 0, expert_ffn = 0, shared_experts = 0, dense_layers = 0;
  double capacity = 0;  // slots per expert as a multiple of the even share; 0: what is routed
};

DecoderSizes decoder_sizes(const ModelOptions& resolved);
Graph decoder_graph(const DecoderSizes& sizes);
/// ResNet-50 (arXiv 1512.03385, stride in the 3x3 product as in torchvision) with `vocab` classes
/// on images of `context` x `context`.
Graph resnet_graph(std::int64_t classes, std::int64_t image);

/// Of a resolved model of any kind.
Graph graph(const ModelOptions& resolved);

}  // namespace tutti::spec
