// The layers of GPT-2. Shapes: N rows, n those that this rank holds between layers, C hidden (of a
// weight or behind a split product: this rank's share of it), F inner width, V vocabulary, T
// context.
#include "model/gpt.h"

#include <map>
#include <string>

#include "core/error.h"
#include "model/attention.h"
#include "model/dropout.h"
#include "parallel/functions.h"
#include "parallel/vocabulary.h"
#include "tensor/products.h"

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

// The rows of a micro-batch that lie on this rank between layers.
mesh::FlatSlice own_rows(const parallel::TensorParallel* tp, const MicroBatch& batch) {
  const std::int64_t all = batch.tokens_N.size(0);
  return tp == nullptr ? mesh::FlatSlice{0, all} : tp->rows(all);
}

// The heads of one kind that this rank computes.
mesh::FlatSlice own_heads(const parallel::TensorParallel* tp, std::int64_t heads) {
  return tp == nullptr ? mesh::FlatSlice{0, heads} : tp->share(heads);
}

class Embedding final : public Layer {
 public:
  Embedding(const Weights& weights, const spec::ModelOptions& model, const GptOptions& run)
      : wte_VC_(weights.at("wte.weight")),
        wpe_TC_(weights.at("wpe.weight")),
        vocabulary_{model.vocab, run.tp},
        dropout_{.key = run.dropout_key, .p = model.dropout, .layer = -1},
        cache_(run.cache) {}

  [[nodiscard]] const std::string& name() const override { return name_; }

  at::Tensor forward(const at::Tensor&, const MicroBatch& batch) override {
    const std::int64_t first = cache_ == nullptr ? 0 : cache_->tokens();
    const at::Tensor x_nC =
        parallel::embedding(batch.tokens_N, batch.sequence, wte_VC_, wpe_TC_, vocabulary_, first);
    return dropout(x_nC, batch, dropout_, own_rows(vocabulary_.tp, batch));
  }

 private:
  std::string name_ = "embedding";
  Weight wte_VC_, wpe_TC_;
  parallel::Vocabulary vocabulary_;
  DropoutSite dropout_;
  const KvCache* cache_;
};

class Block final : public Layer {
 public:
  Block(const Weights& weights, const spec::ModelOptions& model, int layer, const GptOptions& run)
      : name_("blocks." + std::to_string(layer)),
        layer_(layer),
        heads_{own_heads(run.tp, model.heads).count, own_heads(run.tp, model.kv_heads).count},
        keep_(run.keep),
        cache_(run.cache),
        tp_(run.tp),
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
        in_attention_{run.dropout_key, model.attention_dropout, layer,
                      3 + static_cast<int>(own_heads(run.tp, model.heads).first)} {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] bool repeats() const override { return true; }  // masks come from counters

  // n rows of the residual stream; between the products all N rows, of this rank's heads and inner
  // columns.
  at::Tensor forward(const at::Tensor& x_nC, const MicroBatch& batch) override {
    const std::int64_t rows = batch.tokens_N.size(0);
    const at::Tensor qkv_NF =
        parallel::linear_of_norm(x_nC, ln1_w_, ln1_b_, qkv_w_, qkv_b_, keep_, tp_, rows);
    const at::Tensor mixed_NC = cache_ != nullptr
                                    ? cache_->attend(layer_, qkv_NF, heads_)
                                    : causal_attention(qkv_NF, heads_, batch, in_attention_);
    const at::Tensor h_nC = attention_output(x_nC, mixed_NC, batch);
    const at::Tensor inner_NF =
        parallel::linear_of_norm(h_nC, ln2_w_, ln2_b_, fc_w_, no_bias_, keep_, tp_, rows);
    return mlp_output(h_nC, inner_NF, batch);
  }

 private:
  // residual + dropout(product + bias), in one pass behind the product where nothing is dropped.
  [[nodiscard]] at::Tensor attention_output(const at::Tensor& residual_nC,
                                            const at::Tensor& mixed_NC,
                                            const MicroBatch& batch) const {
    if (after_attention_.p == 0)
      return parallel::linear_residual(mixed_NC, attn_w_, attn_b_, residual_nC, tp_);
    return residual_nC + dropout(parallel::linear(mixed_NC, attn_w_, attn_b_, tp_), batch,
                                 after_attention_, own_rows(tp_, batch));
  }
  [[nodiscard]] at::Tensor mlp_output(const at::Tensor& residual_nC, const at::Tensor& inner_NF,
                                      const MicroBatch& batch) const {
    const auto output = [&](const at::Tensor& residual) {
      return parallel::linear_of_gelu(inner_NF, fc_b_, proj_w_, proj_b_, residual, keep_, tp_);
    };
    if (after_mlp_.p == 0) return output(residual_nC);
    return residual_nC + dropout(output({}), batch, after_mlp_, own_rows(tp_, batch));
  }

  std::string name_;
  int layer_;
  HeadCounts heads_;
  parallel::Keep keep_;
  KvCache* cache_;
  parallel::TensorParallel* tp_;
  Weight ln1_w_, ln1_b_, qkv_w_, qkv_b_, attn_w_, attn_b_, ln2_w_, ln2_b_, fc_w_, fc_b_, proj_w_,
      proj_b_;
  Weight no_bias_;  // of the first product of the MLP: GELU adds it
  DropoutSite after_attention_, after_mlp_, in_attention_;
};

class Head final : public Layer {
 public:
  Head(const Weights& weights, const spec::ModelOptions& model, parallel::TensorParallel* tp)
      : ln_w_(weights.at("ln_f.weight")),
        ln_b_(weights.at("ln_f.bias")),
        head_VC_(weights.at(model.tied ? "wte.weight" : "head.weight")),
        vocabulary_{model.vocab, tp} {}

  [[nodiscard]] const std::string& name() const override { return name_; }

  at::Tensor forward(const at::Tensor& x_NC, const MicroBatch& batch) override {
    return parallel::head_loss(parallel::layer_norm(x_NC, ln_w_, ln_b_), batch.targets_N, head_VC_,
                               batch.scale, vocabulary_);
  }

  [[nodiscard]] at::Tensor logits(const at::Tensor& x_NC) const {
    return tensor::product(parallel::layer_norm(x_NC, ln_w_, ln_b_), head_VC_.value.t());
  }

 private:
  std::string name_ = "head";
  Weight ln_w_, ln_b_, head_VC_;
  parallel::Vocabulary vocabulary_;
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
  layers.push_back(std::make_unique<Head>(weights, spec.model, options.tp));
  return layers;
}

at::Tensor gpt_logits(const spec::ModelSpec& spec, const WeightOf& weight, const at::Tensor& x_NC) {
  return Head(Weights(spec, weight), spec.model, nullptr).logits(x_NC);
}

}  // namespace tutti::model
