// Sizes resolved, parameters listed, operations counted.
#include "spec/model_spec.h"

#include <algorithm>

#include "core/suggest.h"
#include "spec/gpt.h"

namespace tutti::spec {
namespace {

bool apply_preset(ModelOptions& model, std::vector<core::Problem>& problems) {
  if (model.preset.empty()) return true;
  for (const auto& [name, preset] : gpt_presets()) {
    if (name != model.preset) continue;
    ModelOptions merged = preset;  // what the config says beside the preset wins
    merged.preset = model.preset;
    merged.dropout = model.dropout;
    merged.attention_dropout = model.attention_dropout;
    merged.tied = model.tied;
    for (const auto size : {&ModelOptions::layers, &ModelOptions::hidden, &ModelOptions::heads,
                            &ModelOptions::kv_heads, &ModelOptions::ffn, &ModelOptions::vocab,
                            &ModelOptions::context}) {
      if (model.*size != 0) merged.*size = model.*size;
    }
    model = merged;
    return true;
  }
  const std::string near = core::nearest(model.preset, presets());
  problems.push_back({fmt::format(
      "[model] preset = \"{}\" is not known{}. Presets: {}.", model.preset,
      near.empty() ? "" : ", did you mean \"" + near + "\"?", fmt::join(presets(), ", "))});
  return false;
}

void check_positive(const ModelOptions& model, std::vector<core::Problem>& problems) {
  const std::pair<const char*, int> sizes[] = {
      {"layers", model.layers}, {"hidden", model.hidden}, {"heads", model.heads},
      {"ffn", model.ffn},       {"vocab", model.vocab},   {"context", model.context}};
  for (const auto& [name, size] : sizes) {
    if (size > 0) continue;
    problems.push_back({fmt::format(
        "[model] {} = {} is not positive: a model without a preset needs layers, hidden, "
        "heads and context. Give it a value or set preset to one of {}.",
        name, size, fmt::join(presets(), ", "))});
  }
  for (const auto& [name, p] :
       {std::pair{"dropout", model.dropout}, {"attention_dropout", model.attention_dropout}}) {
    if (p >= 0 && p < 1) continue;
    problems.push_back({fmt::format(
        "[model] {} = {} is no probability below 1. Set it between 0 and 0.99.", name, p)});
  }
}

}  // namespace

std::int64_t ModelSpec::num_params() const {
  std::int64_t sum = 0;
  for (const Param& param : params) sum += param.tied_to.empty() ? param.elements() : 0;
  return sum;
}

double ModelSpec::train_flops_per_token(int sequence) const {
  double in_products = 0;
  for (const Param& param : params) {
    if (param.in_products) in_products += static_cast<double>(param.elements());
  }
  return 6.0 * in_products + 6.0 * model.layers * model.hidden * sequence;
}

ModelOptions resolve(const ModelOptions& options, int tokenizer_vocab,
                     std::vector<core::Problem>& problems) {
  ModelOptions model = options;
  if (!apply_preset(model, problems)) return model;
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.ffn == 0) model.ffn = 4 * model.hidden;
  if (model.vocab == 0) model.vocab = tokenizer_vocab;
  check_positive(model, problems);
  check_gpt(model, problems);
  return model;
}

ModelSpec describe(const ModelOptions& resolved) { return {resolved, gpt_params(resolved)}; }

std::vector<std::string> presets() {
  std::vector<std::string> names;
  for (const auto& [name, model] : gpt_presets()) names.push_back(name);
  return names;
}

}  // namespace tutti::spec
