// Text from a trained model: next-token sampling with temperature and top-k.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/gpt.h"
#include "spec/model_spec.h"

namespace tutti::model {

struct SampleOptions {
  int tokens = 256;          // to generate
  double temperature = 1.0;  // 0: always the likeliest token
  int top_k = 0;             // 0: all tokens
  std::uint64_t seed = 1;
};

/// Continues `prompt` (at least one token, each below the vocabulary). Only the last `context`
/// tokens are seen. `emit` gets each new token as it is drawn. Equal arguments, equal tokens.
void sample(const spec::ModelSpec& spec, const WeightOf& weight, std::vector<std::int64_t> prompt,
            const SampleOptions& options, const std::function<void(std::int64_t)>& emit);

}  // namespace tutti::model
