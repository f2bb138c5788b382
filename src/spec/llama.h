// Llama and mixtures of experts: RMS norms, rotary positions, grouped-query attention, SwiGLU, a
// head of its own. Sources: Touvron et al. (arXiv 2307.09288), Jiang et al. (arXiv 2401.04088).
#pragma once

#include <vector>

#include "core/error.h"
#include "spec/options.h"
#include "spec/param.h"

namespace tutti::spec {

/// What these families need of their sizes. `model` is complete.
void check_llama(const ModelOptions& model, std::vector<core::Problem>& problems);

/// Parameters in forward order; initial values as GPT-2's. The experts of a layer are one tensor
/// per matrix with the expert in front.
std::vector<Param> llama_params(const ModelOptions& model);

}  // namespace tutti::spec
