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
  int top_k = 0;             // 0, or more than the vocabulary: all tokens
  std::uint64_t seed = 1;
  bool cache = true;  // false: every token from a forward over all before it; the same tokens
};

/// Continues `prompt` (at least one token, each below the vocabulary). Only the last `context`
/// tokens are seen. `emit` gets each new token as it is drawn. Equal arguments, equal tokens.
/// A token costs one row as long as the text fits the context, and a forward over the whole window
/// after that: where it slides every token gets another position.
/// Throws std::invalid_argument for an empty prompt.
void sample(const spec::ModelSpec& spec, const WeightOf& weight, std::vector<std::int64_t> prompt,
            const SampleOptions& options, const std::function<void(std::int64_t)>& emit);

}  // namespace tutti::model
