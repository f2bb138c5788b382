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
  int kv_heads = 0;  // 0: heads
  int ffn = 0;       // 0: 4 x hidden
  int vocab = 0;     // 0: the tokenizer's
  int context = 0;   // tokens the position embedding covers
  bool tied = true;
  double dropout = 0.0;            // embedding and residual
  double attention_dropout = 0.0;  // attention weights
};

}  // namespace tutti::spec
