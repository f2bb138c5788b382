// Sizes resolved, parameters listed, operations counted.
#include "spec/model_spec.h"

#include <algorithm>

#include "core/suggest.h"
#include "spec/checked.h"
#include "spec/gpt.h"
#include "spec/graph.h"
#include "spec/llama.h"
#include "spec/presets.h"
#include "spec/resnet.h"

namespace tutti::spec {
namespace {

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> names = {"gpt2", "llama", "moe", "resnet50"};
  return names;
}

// Beyond it 4 x hidden is no int: ffn stays 0 and is asked for.
constexpr int kWidest = 1 << 28;

// The width at which a gated layer's three matrices cost what two of width 4h do, in whole 256s.
int gated_width(int hidden) {
  constexpr int kMultiple = 256;
  return static_cast<int>((std::int64_t{8} * hidden / 3 + kMultiple - 1) / kMultiple * kMultiple);
}

void fill(ModelOptions& model, int tokenizer_vocab) {
  const bool decoder = model.kind != "resnet50";
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.ffn == 0 && decoder && model.hidden <= kWidest) {
    model.ffn = model.kind == "gpt2" ? 4 * model.hidden : gated_width(model.hidden);
  }
  if (model.vocab == 0) model.vocab = tokenizer_vocab;
  if (model.kind != "gpt2") model.tied = false;
  if (model.kind != "moe") return;
  if (model.top_k == 0) model.top_k = 2;
  if (model.expert_ffn == 0) model.expert_ffn = model.ffn;
}

void check_key_heads(const ModelOptions& model, std::vector<core::Problem>& problems) {
  if (model.kv_heads >= 0 && (model.kv_heads == 0 || model.heads % model.kv_heads == 0)) return;
  std::vector<int> divisors;
  for (int heads = 1; heads <= std::min(model.heads, 4096); ++heads) {
    if (model.heads % heads == 0) divisors.push_back(heads);
  }
  problems.push_back({fmt::format(
      "[model] kv_heads = {} does not divide [model] heads = {}: every key head serves "
      "the same number of query heads. Set kv_heads to one of {}.",
      model.kv_heads, model.heads, fmt::join(divisors, ", "))});
}

bool apply_preset(ModelOptions& model, std::vector<core::Problem>& problems) {
  if (model.preset.empty()) return true;
  for (const auto& [name, preset] : all_presets()) {
    if (name != model.preset) continue;
    ModelOptions merged = preset;  // what the config says beside the preset wins
    merged.preset = model.preset;
    merged.dropout = model.dropout;
    merged.attention_dropout = model.attention_dropout;
    merged.tied = model.tied && preset.tied;
    for (const auto size :
         {&ModelOptions::layers, &ModelOptions::hidden, &ModelOptions::heads,
          &ModelOptions::kv_heads, &ModelOptions::ffn, &ModelOptions::vocab, &ModelOptions::context,
          &ModelOptions::experts, &ModelOptions::top_k, &ModelOptions::expert_ffn,
          &ModelOptions::shared_experts, &ModelOptions::dense_layers}) {
      if (model.*size != 0) merged.*size = model.*size;
    }
    if (model.capacity > 0) merged.capacity = model.capacity;
    model = merged;
    return true;
  }
  const std::string near = core::nearest(model.preset, presets());
  problems.push_back({fmt::format(
      "[model] preset = \"{}\" is not known{}. Presets: {}.", model.preset,
      near.empty() ? "" : " (did you mean \"" + near + "\"?)", fmt::join(presets(), ", "))});
  return false;
}

void check_positive(const ModelOptions& model, std::vector<core::Problem>& problems) {
  const std::pair<const char*, int> sizes[] = {
      {"layers", model.layers}, {"hidden", model.hidden}, {"heads", model.heads},
      {"ffn", model.ffn},       {"vocab", model.vocab},   {"context", model.context}};
  const bool decoder = model.kind != "resnet50";
  for (const auto& [name, size] : sizes) {
    const std::string_view which = name;
    if (size > 0 || (!decoder && which != "vocab" && which != "context")) continue;
    if (which == "ffn" && model.hidden <= 0) continue;  // it follows from hidden
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
  Count sum = 0;
  for (const Param& param : params) sum += param.tied_to.empty() ? param.elements() : 0;
  return sum.value();
}

double ModelSpec::train_flops_per_token(int sequence) const {
  const Flops all = graph(model).flops(sequence, Attention::CausalHalf);
  return all.total().real() / sequence;
}

ModelOptions resolve(const ModelOptions& options, int tokenizer_vocab,
                     std::vector<core::Problem>& problems) {
  ModelOptions model = options;
  if (!apply_preset(model, problems)) return model;
  if (std::find(kinds().begin(), kinds().end(), model.kind) == kinds().end()) {
    problems.push_back({fmt::format("[model] kind = \"{}\" is not known. Set it to one of {}.",
                                    model.kind, fmt::join(kinds(), ", "))});
    return model;
  }
  fill(model, tokenizer_vocab);
  check_positive(model, problems);
  if (model.kind != "resnet50") check_key_heads(model, problems);
  if (model.kind == "gpt2") check_gpt(model, problems);
  if (model.kind == "llama" || model.kind == "moe") check_llama(model, problems);
  return model;
}

ModelSpec describe(const ModelOptions& resolved) {
  if (resolved.kind == "gpt2") return {resolved, gpt_params(resolved)};
  if (resolved.kind == "resnet50") return {resolved, resnet_params(resolved.vocab)};
  return {resolved, llama_params(resolved)};
}

std::vector<std::string> presets() {
  std::vector<std::string> names;
  for (const auto& [name, model] : all_presets()) names.push_back(name);
  return names;
}

}  // namespace tutti::spec
