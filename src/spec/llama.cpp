// Parameters of Llama and of mixtures of experts.
#include "spec/llama.h"

#include <cmath>
#include <string>

namespace tutti::spec {
namespace {

using mesh::Axis;
using mesh::AxisSet;

constexpr double kStddev = 0.02;
constexpr AxisSet kReplicas = {Axis::Dp, Axis::Cp};
constexpr AxisSet kNorms = {Axis::Dp, Axis::Cp, Axis::Tp};
constexpr Split kColumns = {.dim = 0};
constexpr Split kRows = {.dim = 1};

class Builder {
 public:
  explicit Builder(const ModelOptions& model)
      : model_(model), residual_(kStddev / std::sqrt(2.0 * model.layers)) {}

  std::vector<Param> build() {
    const std::int64_t h = model_.hidden;
    Param embedding = matrix("tok.weight", {model_.vocab, h}, -1, kColumns, kStddev);
    embedding.in_products = false;
    params_.push_back(embedding);
    for (int layer = 0; layer < model_.layers; ++layer) add_block(layer);
    add_norm("norm_f.weight", model_.layers);
    params_.push_back(matrix("head.weight", {model_.vocab, h}, model_.layers, kColumns, kStddev));
    return std::move(params_);
  }

 private:
  static Param matrix(std::string name, std::vector<std::int64_t> shape, int layer,
                      std::optional<Split> split, double stddev) {
    return {.name = std::move(name),
            .shape = std::move(shape),
            .layer = layer,
            .tp = split,
            .grad_sum = split ? kReplicas : kNorms,
            .in_products = true,
            .decay = true,
            .init = {Init::Kind::Normal, stddev}};
  }

  void add_norm(const std::string& name, int layer) {
    params_.push_back({.name = name,
                       .shape = {model_.hidden},
                       .layer = layer,
                       .grad_sum = kNorms,
                       .init = {Init::Kind::Ones}});
  }

  void add_mlp(const std::string& name, std::int64_t width, int layer) {
    const std::int64_t h = model_.hidden;
    params_.push_back(matrix(name + ".gate.weight", {width, h}, layer, kColumns, kStddev));
    params_.push_back(matrix(name + ".up.weight", {width, h}, layer, kColumns, kStddev));
    params_.push_back(matrix(name + ".down.weight", {h, width}, layer, kRows, residual_));
  }

  void add_experts(const std::string& block, int layer) {
    const std::int64_t h = model_.hidden;
    const std::int64_t e = model_.experts;
    const std::int64_t f = model_.expert_ffn;
    params_.push_back(matrix(block + "router.weight", {e, h}, layer, std::nullopt, kStddev));
    const auto add = [&](const char* name, std::vector<std::int64_t> shape, double stddev) {
      Param param = matrix(block + name, std::move(shape), layer, std::nullopt, stddev);
      param.grad_sum = kReplicas;
      param.expert = true;
      params_.push_back(param);
    };
    add("experts.gate.weight", {e, f, h}, kStddev);
    add("experts.up.weight", {e, f, h}, kStddev);
    add("experts.down.weight", {e, h, f}, residual_);
    if (model_.shared_experts > 0) add_mlp(block + "shared", model_.shared_experts * f, layer);
  }

  void add_block(int layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".";
    const std::int64_t h = model_.hidden;
    const std::int64_t keys = h / model_.heads * model_.kv_heads;
    add_norm(block + "norm1.weight", layer);
    params_.push_back(matrix(block + "attn.q.weight", {h, h}, layer, kColumns, kStddev));
    params_.push_back(matrix(block + "attn.k.weight", {keys, h}, layer, kColumns, kStddev));
    params_.push_back(matrix(block + "attn.v.weight", {keys, h}, layer, kColumns, kStddev));
    params_.push_back(matrix(block + "attn.proj.weight", {h, h}, layer, kRows, residual_));
    add_norm(block + "norm2.weight", layer);
    if (model_.kind == "moe" && layer >= model_.dense_layers) {
      add_experts(block, layer);
    } else {
      add_mlp(block + "mlp", model_.ffn, layer);
    }
  }

  const ModelOptions& model_;
  double residual_;
  std::vector<Param> params_;
};

}  // namespace

void check_llama(const ModelOptions& model, std::vector<core::Problem>& problems) {
  if (model.heads > 0 && model.hidden % model.heads != 0) {
    problems.push_back(
        {fmt::format("[model] heads = {} does not divide [model] hidden = {}: every head needs the "
                     "same number of columns. Change heads or hidden.",
                     model.heads, model.hidden)});
  }
  if (model.kind != "moe") return;
  if (model.experts < 1) {
    problems.push_back({fmt::format(
        "[model] experts = {} is not positive: a mixture of experts needs some. Set experts, or "
        "kind = \"llama\".",
        model.experts)});
  } else if (model.top_k < 1 || model.top_k > model.experts) {
    problems.push_back({fmt::format(
        "[model] top_k = {} is not between 1 and [model] experts = {}: a token goes to "
        "that many different experts. Change top_k.",
        model.top_k, model.experts)});
  }
  if (model.dense_layers > model.layers) {
    problems.push_back(
        {fmt::format("[model] dense_layers = {} is more than [model] layers = {}. Lower it.",
                     model.dense_layers, model.layers)});
  }
}

std::vector<Param> llama_params(const ModelOptions& model) { return Builder(model).build(); }

}  // namespace tutti::spec
