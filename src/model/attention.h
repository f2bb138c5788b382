// Causal self-attention. B sequences, T tokens, H query heads, G key and value heads (H, or a
// divisor of it: grouped queries), D head size, C = H x D, F = (H + 2 G) x D, N = B x T.
#pragma once

#include <cstdint>
#include <vector>

#include "model/dropout.h"
#include "parallel/stage.h"
#include "tensor/torch.h"

namespace tutti::model {

/// Heads of a model, or of a rank's part of it.
struct HeadCounts {
  std::int64_t query = 1;
  std::int64_t key = 1;  // and value; divides `query`
};

/// softmax(q k^T / sqrt(D), causal) v for a fused qkv_NF -> [N, C]. Columns: q, k, v, heads
/// adjacent inside each; with grouped queries G groups of H / G query heads, their key and their
/// value head, so that a rank's heads are neighbours. In fp32 and bf16 with D a multiple of 16 by
/// kernels of ours in fp32 (attention_kernels.h), else by LibTorch's fused kernel; with attention
/// dropout (site.p > 0 while training) on the unfused path, which keeps the weights. Equal bits at
/// any number of threads. Vaswani et al., "Attention Is All You Need" (2017); Ainslie et al., "GQA"
/// (2023).
at::Tensor causal_attention(const at::Tensor& qkv_NF, HeadCounts heads,
                            const parallel::MicroBatch& batch, const DropoutSite& site);

/// Keys and values of the tokens that one sequence has had, in every layer, so that the next token
/// costs one row. 2 x layers x capacity x G x D elements.
class KvCache {
 public:
  /// Room for `capacity` tokens, at most the model's context: positions are absolute, so a window
  /// that slides has other keys for the same tokens and no use for these.
  KvCache(int layers, std::int64_t key_heads, std::int64_t head_size, std::int64_t capacity,
          at::ScalarType type);

  /// Tokens that every layer holds: the position of the next one.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// `rows` more have gone through all layers.
  void advance(std::int64_t rows) { tokens_ += rows; }

  /// Attention of the next tokens of the sequence to themselves and all before them, in one layer;
  /// their keys and values are kept. Either the cache is empty (a prompt) or there is one row.
  /// Without gradients. Throws std::invalid_argument for several rows behind others, or no room.
  at::Tensor attend(int layer, const at::Tensor& qkv_NF, HeadCounts heads);

 private:
  struct Layer {
    at::Tensor k_GTD, v_GTD;
  };
  std::vector<Layer> layers_;
  std::int64_t capacity_;
  std::int64_t tokens_ = 0;
};

}  // namespace tutti::model
