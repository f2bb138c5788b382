// The GPT-2 family: pre-norm blocks, learned positions, GELU MLP, head tied to the embedding.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), and its
// released weights.
#pragma once

#include <vector>

#include "core/error.h"
#include "spec/options.h"
#include "spec/param.h"

namespace tutti::spec {

/// What a GPT needs of its sizes: whole heads, everything positive. `model` is complete.
void check_gpt(const ModelOptions& model, std::vector<core::Problem>& problems);

/// Parameters in forward order. Initial values as GPT-2's: normal(0, 0.02), the projections that
/// end in the residual stream divided by sqrt(2 x layers), biases zero, norms one.
std::vector<Param> gpt_params(const ModelOptions& model);

}  // namespace tutti::spec
