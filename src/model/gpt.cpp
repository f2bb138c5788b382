// The layers of GPT-2. Shapes: N rows, C hidden, F inner width, V vocabulary, T context.
#include "model/gpt.h"

#include <map>
#include <string>

#include "core/error.h"
#include "model/attention.h"
#include "model/dropout.h"
#include "parallel/functions.h"
#include "parallel/vocabulary.h"

namespace tutti::model {
namespace {

using parallel::Layer;
using parallel::MicroBatch;
using parallel::Weight;

/// Weights by their names, as spec lists them.
class Weights {
 public:
  Weights(const spec::ModelSpec& spec, const WeightOf& weight) : weight_(weight) {
    for (std::size_t i = 0; i < spec.params.size(); ++i)
      params_[spec.params[i].name] = static_cast<int>(i);
  }
  [[nodiscard]] Weight at(const std::string& name) const {
    const auto found = params_.find(name);
    TUTTI_CHECK(found != params_.end(), "no parameter {}", name);
    return weight_(found->second);
  }

 private:
  WeightOf weight_;
  std::map<std::string, int> params_;
};

class Embedding final : public Layer {
 public:
  Embedding(const Weights& weights, const spec::ModelOptions& model, const GptOptions& run)
      : wte_VC_(weights.at("wte.weight")),
        wpe_TC_(weights.at("wpe.weight")),
        dropout_{.key = run.dropout_key, .p = model.dropout, .layer = -1},
        cache_(run.cache) {}

  [[nodiscard]] const std::string& name() const override { return name_; }

  at::Tensor forward(const at::Tensor&, const MicroBatch& batch) override {
    const std::int64_t first = cache_ == nullptr ? 0 : cache_->tokens();
    const at::Tensor x_NC =
        parallel::embedding(batch.tokens_N, batch.sequence, wte_VC_, wpe_TC_, first);
    return dropout(x_NC, batch, dropout_);
  }

 private:
  std::string name_ = "embedding";
  Weight wte_VC_, wpe_TC_;
  DropoutSite dropout_;
  const KvCache* cache_;
};

class Block final : public Layer {
 public:
  Block(const Weights& weights, const spec::ModelOptions& model, int layer, const GptOptions& run)
      : name_("blocks." + std::to_string(layer)),
        layer_(layer),
        heads_(model.heads),
        keep_(run.keep),
        cache_(run.cache),
        ln1_w_(weights.at(name_ + ".ln1.weight")),
        ln1_b_(weights.at(name_ + ".ln1.bias")),
        qkv_w_(weights.at(name_ + ".attn.qkv.weight")),
        qkv_b_(weights.at(name_ + ".attn.qkv.bias")),
        attn_w_(weights.at(name_ + ".attn.proj.weight")),
        attn_b_(weights.at(name_ + ".attn.proj.bias")),
        ln2_w_(weights.at(name_ + ".ln2.weight")),
        ln2_b_(weights.at(name_ + ".ln2.bias")),
        fc_w_(weights.at(name_ + ".fc.weight")),
        fc_b_(weights.at(name_ + ".fc.bias")),
        proj_w_(weights.at(name_ + ".proj.weight")),
        proj_b_(weights.at(name_ + ".proj.bias")),
        after_attention_{run.dropout_key, model.dropout, layer, 1},
        after_mlp_{run.dropout_key, model.dropout, layer, 2},
        in_attention_{run.dropout_key, model.attention_dropout, layer, 3} {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] bool repeats() const override { return true; }  // masks come from counters

  at::Tensor forward(const at::Tensor& x_NC, const MicroBatch& batch) override {
    const at::Tensor qkv_N3C =
        parallel::linear_of_norm(x_NC, ln1_w_, ln1_b_, qkv_w_, qkv_b_, keep_);
    const at::Tensor mixed_NC = cache_ != nullptr
                                    ? cache_->attend(layer_, qkv_N3C, heads_)
                                    : causal_attention(qkv_N3C, heads_, batch, in_attention_);
    const at::Tensor h_NC = attention_output(x_NC, mixed_NC, batch);
    const at::Tensor inner_NF =
        parallel::linear_of_norm(h_NC, ln2_w_, ln2_b_, fc_w_, no_bias_, keep_);
    return mlp_output(h_NC, inner_NF, batch);
  }

 private:
  // residual + dropout(product + bias), in one pass behind the product where nothing is dropped.
  [[nodiscard]] at::Tensor attention_output(const at::Tensor& residual_NC,
                                            const at::Tensor& mixed_NC,
                                            const MicroBatch& batch) const {
    if (after_attention_.p == 0)
      return parallel::linear_residual(mixed_NC, attn_w_, attn_b_, residual_NC);
    return residual_NC +
           dropout(parallel::linear(mixed_NC, attn_w_, attn_b_), batch, after_attention_);
  }
  [[nodiscard]] at::Tensor mlp_output(const at::Tensor& residual_NC, const at::Tensor& inner_NF,
                                      const MicroBatch& batch) const {
    const auto output = [&](const at::Tensor& residual) {
      return parallel::linear_of_gelu(inner_NF, fc_b_, proj_w_, proj_b_, residual, keep_);
    };
    if (after_mlp_.p == 0) return output(residual_NC);
    return residual_NC + dropout(output({}), batch, after_mlp_);
  }

  std::string name_;
  int layer_;
  std::int64_t heads_;
  parallel::Keep keep_;
  KvCache* cache_;
  Weight ln1_w_, ln1_b_, qkv_w_, qkv_b_, attn_w_, attn_b_, ln2_w_, ln2_b_, fc_w_, fc_b_, proj_w_,
      proj_b_;
  Weight no_bias_;  // of the first product of the MLP: GELU adds it
  DropoutSite after_attention_, after_mlp_, in_attention_;
};

class Head final : public Layer {
 public:
  Head(const Weights& weights, const spec::ModelOptions& model)
      : ln_w_(weights.at("ln_f.weight")),
        ln_b_(weights.at("ln_f.bias")),
        head_VC_(weights.at(model.tied ? "wte.weight" : "head.weight")) {}

  [[nodiscard]] const std::string& name() const override { return name_; }

  at::Tensor forward(const at::Tensor& x_NC, const MicroBatch& batch) override {
    return parallel::head_loss(parallel::layer_norm(x_NC, ln_w_, ln_b_), batch.targets_N, head_VC_,
                               batch.scale);
  }

  [[nodiscard]] at::Tensor logits(const at::Tensor& x_NC) const {
    return at::mm(parallel::layer_norm(x_NC, ln_w_, ln_b_), head_VC_.value.t());
  }

 private:
  std::string name_ = "head";
  Weight ln_w_, ln_b_, head_VC_;
};

}  // namespace

std::vector<std::unique_ptr<Layer>> gpt_layers(const spec::ModelSpec& spec, const WeightOf& weight,
                                               const GptOptions& options) {
  const Weights weights(spec, weight);
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<Embedding>(weights, spec.model, options));
  for (int layer = 0; layer < spec.model.layers; ++layer) {
    layers.push_back(std::make_unique<Block>(weights, spec.model, layer, options));
  }
  layers.push_back(std::make_unique<Head>(weights, spec.model));
  return layers;
}

at::Tensor gpt_logits(const spec::ModelSpec& spec, const WeightOf& weight, const at::Tensor& x_NC) {
  return Head(Weights(spec, weight), spec.model).logits(x_NC);
}

}  // namespace tutti::model
