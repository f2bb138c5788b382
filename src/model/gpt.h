// GPT-2 as layers of a stage: embedding, blocks, head. Each reads its weights from the replica and
// has one graph.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "parallel/functions.h"
#include "parallel/stage.h"
#include "parallel/weight_grads.h"
#include "spec/model_spec.h"

namespace tutti::model {

class KvCache;  // model/attention.h

/// Where a layer finds the weight of a parameter.
using WeightOf = std::function<parallel::Weight(int param)>;

/// How layers run, whatever the model.
struct GptOptions {
  core::PhiloxKey dropout_key;
  parallel::Keep keep = parallel::Keep::Input;  // of products behind a norm or a GELU
  KvCache* cache = nullptr;  // sampling: a batch is the next tokens of its one sequence
  parallel::TensorParallel* tp = nullptr;  // outlives the layers; weights are then its parts
};

/// The layers of a whole GPT in order, the last one giving the loss. A cache outlives the layers;
/// the caller advances it.
std::vector<std::unique_ptr<parallel::Layer>> gpt_layers(const spec::ModelSpec& spec,
                                                         const WeightOf& weight,
                                                         const GptOptions& options);

/// The last norm and the logits [N, V] of activations x_NC: for sampling.
at::Tensor gpt_logits(const spec::ModelSpec& spec, const WeightOf& weight, const at::Tensor& x_NC);

}  // namespace tutti::model
