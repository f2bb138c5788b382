// The [model] section of a config.
#pragma once

#include <string>

namespace tutti::spec {

struct ModelOptions {
  std::string preset;         // a name of spec::presets(), or empty: the sizes below
  std::string kind = "gpt2";  // gpt2 | llama | moe | resnet50
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;        // 0: heads
  int ffn = 0;             // 0: 4 x hidden (gpt2), else the gated width of the same cost
  int vocab = 0;           // 0: the tokenizer's
  int context = 0;         // tokens the position embedding covers
  bool tied = true;        // gpt2 only: Llama and mixtures of experts have a head of their own
  int experts = 0;         // moe: of one layer, without the shared ones
  int top_k = 0;           // moe: experts per token; 0: 2
  int expert_ffn = 0;      // moe: width of one expert; 0: ffn
  int shared_experts = 0;  // moe: experts that every token passes
  int dense_layers = 0;    // moe: first layers with a plain feed-forward layer
  double capacity = 0.0;   // moe: tokens an expert takes, as a multiple of its even share; 0: all
  double dropout = 0.0;    // embedding and residual
  double attention_dropout = 0.0;  // attention weights
};

}  // namespace tutti::spec
