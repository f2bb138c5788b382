// GPT, Llama and mixtures of experts as operations. h hidden, f inner width, a heads, g key and
// value heads, V vocabulary, E experts, k experts per token. The kept tensors of a GPT layer in 16
// bits are those of Korthikanti et al. (arXiv 2205.05198) sec. 4.1: attention 11, MLP 19, norms 4
// and the core 5as/h, times tokens x h bytes.
#include "spec/graph.h"

namespace tutti::spec {
namespace {

using Ops = std::vector<Operation>;

// DeepSeek-V2 (arXiv 2405.04434) sec. 3.1.2.
constexpr std::int64_t kQueryRank = 1536;
constexpr std::int64_t kKeyRank = 512;
constexpr std::int64_t kPlainHead = 128;  // without position; also the values'
constexpr std::int64_t kRotaryHead = 64;  // the part that carries the position

Saved norm_input(Count h) {
  return {.name = "norm input", .per_token = h, .place = Place::Sequence};
}

// A norm's output is kept by the product behind it, which needs it for the weight gradient.
Saved product_input(Count h) {
  return {.name = "norm output", .per_token = h, .place = Place::Sequence, .cheap = true};
}

// Every rank of a tensor-parallel group has the whole norm.
Operation norm(std::string_view name, const DecoderSizes& s) {
  return {.name = name,
          .role = Role::Norm,
          .weights = {.whole = s.hidden * (s.gated ? 1 : 2)},
          .saved = {norm_input(s.hidden)}};
}

/// `in` x `out` weights cut by columns (its bias with them) or by rows (its bias whole).
Operation product(std::string_view name, Count in, Count out, bool by_rows, bool bias) {
  Weights weights{.split = in * out};
  (by_rows ? weights.whole : weights.split) += bias ? out : Count(0);
  return {.name = name, .weights = weights, .flops_per_token = 2 * (in * out)};
}

Operation dropout_site(std::string_view name, Count h) {
  return {.name = name,
          .role = Role::Dropout,
          .saved = {{.name = "mask",
                     .per_token = h,
                     .place = Place::Sequence,
                     .width = Width::Mask,
                     .only = Only::Dropout}}};
}

/// softmax(QK^T)V of all heads: query and key heads of `qk`, value heads of `v` columns in all.
Operation attention_core(const DecoderSizes& s, Count qk, Count v) {
  return {.name = "attn.core",
          .role = Role::AttentionCore,
          .flops_per_pair = 2 * qk + 2 * v,
          .saved = {{.name = "softmax output",
                     .per_token = 0,
                     .per_pair = s.heads,
                     .only = Only::Unfused,
                     .in_core = true},
                    {.name = "dropout mask",
                     .per_token = 0,
                     .per_pair = s.heads,
                     .width = Width::Mask,
                     .only = Only::UnfusedDropout,
                     .in_core = true},
                    {.name = "dropout output",
                     .per_token = 0,
                     .per_pair = s.heads,
                     .only = Only::UnfusedDropout,
                     .in_core = true},
                    {.name = "log of the sums",
                     .per_token = s.heads,
                     .width = Width::Fp32,
                     .only = Only::Fused,
                     .listed = true}}};
}

void add_attention(Ops& ops, const DecoderSizes& s) {
  const Count h = s.hidden;
  const Count keys = share(h * s.kv_heads, s.heads.value());
  Operation qkv = product("attn.qkv", h, h + 2 * keys, /*by_rows=*/false, !s.gated);
  qkv.saved = {product_input(h),
               {.name = "queries", .per_token = h, .listed = true},
               {.name = "keys", .per_token = keys},
               {.name = "values", .per_token = keys, .listed = true}};
  Operation out = product("attn.proj", h, h, /*by_rows=*/true, !s.gated);
  out.saved = {{.name = "attention output", .per_token = h, .listed = true}};
  ops.push_back(norm("norm1", s));
  ops.push_back(qkv);
  ops.push_back(attention_core(s, h, h));
  ops.push_back(out);
  ops.push_back(dropout_site("attn.dropout", h));
}

void add_latent_attention(Ops& ops, const DecoderSizes& s) {
  const Count h = s.hidden;
  const Count qk = s.heads * (kPlainHead + kRotaryHead);
  const Count v = s.heads * kPlainHead;
  Operation down = product("attn.q_down", h, kQueryRank, false, false);
  down.saved = {product_input(h), {.name = "query latent", .per_token = kQueryRank}};
  Operation q = product("attn.q_up", kQueryRank, qk, false, false);
  q.saved = {{.name = "queries", .per_token = qk, .listed = true}};
  Operation kv_down = product("attn.kv_down", h, kKeyRank + kRotaryHead, false, false);
  kv_down.saved = {{.name = "key latent", .per_token = kKeyRank + kRotaryHead}};
  Operation kv = product("attn.kv_up", kKeyRank, 2 * v, false, false);
  kv.saved = {{.name = "keys", .per_token = qk},
              {.name = "values", .per_token = v, .listed = true}};
  Operation out = product("attn.proj", v, h, true, false);
  out.saved = {{.name = "attention output", .per_token = v, .listed = true}};
  ops.push_back(norm("norm1", s));
  ops.push_back({.name = "attn.latent_norms",
                 .role = Role::Norm,
                 .weights = {.whole = kQueryRank + kKeyRank}});
  for (const Operation& operation : {down, q, kv_down, kv}) ops.push_back(operation);
  ops.push_back(attention_core(s, qk, v));
  ops.push_back(out);
}

void add_gelu_mlp(Ops& ops, const DecoderSizes& s) {
  const Count h = s.hidden;
  Operation fc = product("fc", h, s.ffn, /*by_rows=*/false, true);
  fc.saved = {product_input(h)};
  Operation proj = product("proj", s.ffn, h, /*by_rows=*/true, true);
  proj.saved = {{.name = "GELU output", .per_token = s.ffn, .cheap = true}};
  ops.push_back(norm("norm2", s));
  ops.push_back(fc);
  ops.push_back({.name = "gelu",
                 .role = Role::Activation,
                 .saved = {{.name = "GELU input", .per_token = s.ffn, .listed = true}}});
  ops.push_back(proj);
  ops.push_back(dropout_site("mlp.dropout", h));
}

/// SwiGLU of inner width `f` for every token; the norm before it belongs to the caller.
void add_gated_mlp(Ops& ops, Count h, Count f, bool keeps_input) {
  Operation gate = product("mlp.gate", h, f, false, false);
  if (keeps_input) gate.saved = {product_input(h)};
  gate.saved.push_back({.name = "gate", .per_token = f, .listed = true});
  Operation up = product("mlp.up", h, f, false, false);
  up.saved = {{.name = "up", .per_token = f}};
  Operation down = product("mlp.down", f, h, true, false);
  down.saved = {{.name = "gated product", .per_token = f, .cheap = true},
                {.name = "down output",
                 .per_token = h,
                 .place = Place::Sequence,
                 .listed = true,
                 .only_list = true}};
  ops.push_back(gate);
  ops.push_back(up);
  ops.push_back(down);
}

Operation expert_product(std::string_view name, const DecoderSizes& s, Count in, Count out) {
  return {.name = name,
          .weights = {.experts = s.experts * in * out},
          .flops_per_token = 2 * (in * out) * s.top_k};
}

// Dispatch copies every token to its k experts; each expert's output is kept for the gradient of
// its routing weight.
void add_experts(Ops& ops, const DecoderSizes& s) {
  const Count h = s.hidden;
  const Count slots = s.capacity > 0 ? Count(rounded(s.capacity * s.top_k.real())) : s.top_k;
  ops.push_back(norm("norm2", s));
  ops.push_back({.name = "router",
                 .role = Role::Router,
                 .weights = {.whole = h * s.experts},
                 .flops_per_token = 2 * (h * s.experts),
                 .saved = {product_input(h),
                           {.name = "probabilities",
                            .per_token = s.experts,
                            .place = Place::Sequence,
                            .width = Width::Fp32,
                            .listed = true}}});
  Operation gate = expert_product("experts.gate", s, h, s.expert_ffn);
  gate.saved = {{.name = "expert input", .per_token = slots * h},
                {.name = "gate", .per_token = slots * s.expert_ffn, .listed = true}};
  Operation up = expert_product("experts.up", s, h, s.expert_ffn);
  up.saved = {{.name = "up", .per_token = slots * s.expert_ffn}};
  Operation down = expert_product("experts.down", s, s.expert_ffn, h);
  down.saved = {{.name = "gated product", .per_token = slots * s.expert_ffn, .cheap = true},
                {.name = "expert output", .per_token = slots * h, .listed = true}};
  for (const Operation& operation : {gate, up, down}) ops.push_back(operation);
  if (s.shared_experts > 0) add_gated_mlp(ops, h, s.shared_experts * s.expert_ffn, false);
}

LayerKind block(const DecoderSizes& s, bool with_experts, Count count) {
  LayerKind kind{
      .name = with_experts ? "expert block" : "block", .count = count, .input_per_token = s.hidden};
  kind.operations.reserve(12);
  s.latent ? add_latent_attention(kind.operations, s) : add_attention(kind.operations, s);
  if (with_experts) {
    add_experts(kind.operations, s);
  } else if (s.gated) {
    kind.operations.push_back(norm("norm2", s));
    add_gated_mlp(kind.operations, s.hidden, s.ffn, true);
  } else {
    add_gelu_mlp(kind.operations, s);
  }
  return kind;
}

}  // namespace

Graph decoder_graph(const DecoderSizes& s) {
  Graph graph{.tied = s.tied ? s.vocab * s.hidden : Count(0), .vocab = s.vocab};
  graph.embedding = {.name = "embedding"};
  graph.embedding.operations = {
      {.name = "embedding",
       .role = Role::Embedding,
       .weights = {.split = s.vocab * s.hidden, .whole = s.positions * s.hidden}},
      dropout_site("embedding.dropout", s.hidden)};
  const Count dense = s.experts > 0 ? s.dense_layers : s.layers;
  if (dense > 0) graph.blocks.push_back(block(s, false, dense));
  if (s.layers > dense) graph.blocks.push_back(block(s, true, s.layers - dense));
  graph.head = {.name = "head", .input_per_token = s.hidden};
  Operation head = product("head", s.hidden, s.vocab, false, false);
  head.role = Role::Loss;
  head.saved = {{.name = "norm output", .per_token = s.hidden, .place = Place::Sequence}};
  graph.head.operations = {norm("norm_f", s), head};
  return graph;
}

DecoderSizes decoder_sizes(const ModelOptions& m) {
  const bool gpt = m.kind == "gpt2";
  return {.layers = m.layers,
          .hidden = m.hidden,
          .heads = m.heads,
          .kv_heads = m.kv_heads,
          .ffn = m.ffn,
          .vocab = m.vocab,
          .positions = gpt ? m.context : 0,
          .gated = !gpt,
          .tied = gpt && m.tied,
          .experts = m.kind == "moe" ? m.experts : 0,
          .top_k = m.top_k,
          .expert_ffn = m.expert_ffn,
          .shared_experts = m.shared_experts,
          .dense_layers = m.dense_layers,
          .capacity = m.capacity};
}

}  // namespace tutti::spec
