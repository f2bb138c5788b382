// The GPT-2 family's sizes and parameters.
#include "spec/gpt.h"

#include <cmath>

namespace tutti::spec {
namespace {

using mesh::Axis;
using mesh::AxisSet;

constexpr double kStddev = 0.02;
constexpr AxisSet kReplicas = {Axis::Dp, Axis::Cp};
// A norm's gradient is partial over tp as well: under sequence parallelism each rank sees its own
// tokens only.
constexpr AxisSet kNorms = {Axis::Dp, Axis::Cp, Axis::Tp};

Param matrix(std::string name, std::vector<std::int64_t> shape, int layer, Split split,
             double stddev) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .layer = layer,
          .tp = split,
          .grad_sum = kReplicas,
          .in_products = true,
          .decay = true,
          .init = {Init::Kind::Normal, stddev}};
}

// A row-parallel product's bias is added once, after the sum: it is replicated, and so is its
// gradient.
Param bias(std::string name, std::int64_t size, int layer, std::optional<Split> split) {
  return {.name = std::move(name),
          .shape = {size},
          .layer = layer,
          .tp = split,
          .grad_sum = split ? kReplicas : kNorms,
          .init = {Init::Kind::Zeros}};
}

void add_norm(std::vector<Param>& params, const std::string& name, std::int64_t size, int layer) {
  params.push_back({.name = name + ".weight",
                    .shape = {size},
                    .layer = layer,
                    .grad_sum = kNorms,
                    .init = {Init::Kind::Ones}});
  params.push_back({.name = name + ".bias",
                    .shape = {size},
                    .layer = layer,
                    .grad_sum = kNorms,
                    .init = {Init::Kind::Zeros}});
}

void add_block(std::vector<Param>& params, const ModelOptions& model, int layer) {
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::int64_t h = model.hidden;
  const std::int64_t f = model.ffn;
  const std::int64_t qkv_rows = h + 2 * (h / model.heads * model.kv_heads);
  const double residual = kStddev / std::sqrt(2.0 * model.layers);
  const Split columns{.dim = 0, .bands = 1};
  // Three matrices; grouped queries stand beside their keys and values, so a part is neighbours.
  const Split qkv{.dim = 0, .bands = model.kv_heads == model.heads ? 3 : 1};
  const Split rows{.dim = 1, .bands = 1};

  add_norm(params, block + "ln1", h, layer);
  params.push_back(matrix(block + "attn.qkv.weight", {qkv_rows, h}, layer, qkv, kStddev));
  params.push_back(bias(block + "attn.qkv.bias", qkv_rows, layer, qkv));
  params.push_back(matrix(block + "attn.proj.weight", {h, h}, layer, rows, residual));
  params.push_back(bias(block + "attn.proj.bias", h, layer, std::nullopt));
  add_norm(params, block + "ln2", h, layer);
  params.push_back(matrix(block + "fc.weight", {f, h}, layer, columns, kStddev));
  params.push_back(bias(block + "fc.bias", f, layer, columns));
  params.push_back(matrix(block + "proj.weight", {h, f}, layer, rows, residual));
  params.push_back(bias(block + "proj.bias", h, layer, std::nullopt));
}

}  // namespace

void check_gpt(const ModelOptions& model, std::vector<core::Problem>& problems) {
  if (model.heads > 0 && model.hidden % model.heads != 0) {
    std::vector<int> divisors;
    for (int heads = 1; heads <= model.hidden && heads <= 4 * model.heads; ++heads) {
      if (model.hidden % heads == 0) divisors.push_back(heads);
    }
    problems.push_back(
        {fmt::format("[model] heads = {} does not divide [model] hidden = {}: every head needs the "
                     "same number of columns. Set heads to one of {} or change hidden.",
                     model.heads, model.hidden, fmt::join(divisors, ", "))});
  }
}

std::vector<Param> gpt_params(const ModelOptions& model) {
  std::vector<Param> params;
  const std::int64_t h = model.hidden;
  Param wte = matrix("wte.weight", {model.vocab, h}, -1, Split{.dim = 0}, kStddev);
  wte.uses = model.tied ? 2 : 1;
  wte.in_products = model.tied;
  params.push_back(wte);
  Param wpe = matrix("wpe.weight", {model.context, h}, -1, Split{}, kStddev);
  wpe.tp.reset();
  wpe.in_products = false;
  wpe.grad_sum = kNorms;
  params.push_back(wpe);
  for (int layer = 0; layer < model.layers; ++layer) add_block(params, model, layer);
  add_norm(params, "ln_f", h, model.layers);
  if (!model.tied)
    params.push_back(
        matrix("head.weight", {model.vocab, h}, model.layers, Split{.dim = 0}, kStddev));
  return params;
}

}  // namespace tutti::spec
