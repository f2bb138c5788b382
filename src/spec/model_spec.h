// What a model is, before anything is allocated: its sizes, parameters and costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "spec/options.h"
#include "spec/param.h"

namespace tutti::spec {

/// Every number resolved: no zeros that mean "default".
struct ModelSpec {
  ModelOptions model;  // complete
  std::vector<Param>
      params;  // in forward order: embedding, blocks, final norm (and head if not tied)

  [[nodiscard]] std::int64_t num_params() const;  // elements, tied ones once
  /// Floating point operations of one training step (forward + backward, causal attention counted
  /// once below the diagonal) per token at this sequence length: 6 x (parameters in matrix
  /// products) + 6 x layers x hidden x sequence. The convention is named "megatron_causal" in
  /// metrics.
  [[nodiscard]] double train_flops_per_token(int sequence) const;
};

/// The complete sizes: preset applied, defaults filled in. `vocab` stands in for a vocabulary that
/// the config leaves to the tokenizer. Everything that cannot be is a Problem, all at once; the
/// result is then not usable.
ModelOptions resolve(const ModelOptions& options, int tokenizer_vocab,
                     std::vector<core::Problem>& problems);

/// The parameters of a resolved model. Pure and cheap.
ModelSpec describe(const ModelOptions& resolved);

/// "gpt2-124m", ...
std::vector<std::string> presets();

}  // namespace tutti::spec
