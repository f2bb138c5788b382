// Fused attention with one backward for q, k and v together, by kernels of ours or of LibTorch, and
// the unfused path that dropout needs.
#include "model/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/attention_kernels.h"
#include "tensor/products.h"

namespace tutti::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Qkv {
  at::Tensor q_BHTD, k_BGTD, v_BGTD;
};

std::int64_t head_size(const at::Tensor& qkv_NF, HeadCounts heads) {
  return qkv_NF.size(1) / (heads.query + 2 * heads.key);
}

Qkv split_heads(const at::Tensor& qkv_NF, HeadCounts heads, std::int64_t tokens) {
  const std::int64_t size = head_size(qkv_NF, heads), each = heads.query / heads.key;
  if (each == 1) {
    const at::Tensor qkv_BT3HD = qkv_NF.view({-1, tokens, 3, heads.query, size});
    const auto part = [&](std::int64_t i) { return qkv_BT3HD.select(2, i).transpose(1, 2); };
    return {part(0), part(1), part(2)};
  }
  const at::Tensor groups = qkv_NF.view({-1, tokens, heads.key, each + 2, size});
  return {groups.narrow(3, 0, each).reshape({-1, tokens, heads.query, size}).transpose(1, 2),
          groups.select(3, each).transpose(1, 2), groups.select(3, each + 1).transpose(1, 2)};
}

// One key head for each query head, in the order of these.
at::Tensor for_queries(const at::Tensor& k_BGTD, HeadCounts heads) {
  return heads.query == heads.key ? k_BGTD : k_BGTD.repeat_interleave(heads.query / heads.key, 1);
}

// Gradients into the places that split_heads() reads; those of keys and values are of
// for_queries().
at::Tensor merge_gradients(const Qkv& grads, HeadCounts heads) {
  const std::int64_t tokens = grads.q_BHTD.size(2), size = grads.q_BHTD.size(3);
  const std::int64_t each = heads.query / heads.key;
  const auto by_group = [&](const at::Tensor& g_BHTD) {
    return g_BHTD.transpose(1, 2).reshape({-1, tokens, heads.key, each, size});
  };
  const at::Tensor q = by_group(grads.q_BHTD), k = by_group(grads.k_BGTD),
                   v = by_group(grads.v_BGTD);
  const std::int64_t rows = q.size(0) * tokens;
  if (each == 1) return at::stack({q, k, v}, 2).view({rows, -1});
  return at::cat({q, k.sum(3, /*keepdim=*/true), v.sum(3, /*keepdim=*/true)}, 3).view({rows, -1});
}

at::Tensor merge_heads(const at::Tensor& y_BHTD) {
  const std::int64_t rows = y_BHTD.size(0) * y_BHTD.size(2);
  return y_BHTD.transpose(1, 2).reshape({rows, y_BHTD.size(1) * y_BHTD.size(3)});
}

// Where the heads of all sequences lie. `i` counts the key heads of the first sequence, then those
// of the next; each serves `each` query heads, `j` of them.
struct Places {
  std::int64_t sequences, tokens, keys, each, size;

  [[nodiscard]] std::int64_t groups() const { return sequences * keys; }
  [[nodiscard]] std::int64_t width() const { return keys * each * size; }
  [[nodiscard]] std::int64_t fused_width() const { return keys * (each + 2) * size; }
  [[nodiscard]] std::int64_t in_output(std::int64_t i, std::int64_t j) const {  // [N, C]
    return i / keys * tokens * width() + (i % keys * each + j) * size;
  }
  [[nodiscard]] std::int64_t query(std::int64_t i, std::int64_t j) const {  // [N, F]
    const std::int64_t of_group = each == 1 ? 1 : each + 2;
    return i / keys * tokens * fused_width() + (i % keys * of_group + j) * size;
  }
  [[nodiscard]] std::int64_t key(std::int64_t i) const {
    return query(i, 0) + (each == 1 ? width() : each * size);
  }
  [[nodiscard]] std::int64_t value(std::int64_t i) const {
    return key(i) + (each == 1 ? width() : size);
  }
  [[nodiscard]] std::int64_t log_sums(std::int64_t i, std::int64_t j) const {
    return (i * each + j) * tokens;
  }
  [[nodiscard]] AttentionHead head(const float* qkv, std::int64_t i, std::int64_t j) const {
    return {.tokens = static_cast<std::size_t>(tokens),
            .size = static_cast<std::size_t>(size),
            .stride = static_cast<std::size_t>(fused_width()),
            .q = qkv + query(i, j),
            .k = qkv + key(i),
            .v = qkv + value(i),
            .y_stride = static_cast<std::size_t>(width())};
  }
};

Places places_of(const at::Tensor& qkv_NF, HeadCounts heads, std::int64_t tokens) {
  return {qkv_NF.size(0) / tokens, tokens, heads.key, heads.query / heads.key,
          head_size(qkv_NF, heads)};
}

// f(i, j, scratch of `floats` of this thread's own) for every query head j of every key head i. A
// key head is one thread's, so its bits do not depend on the number of threads.
template <class F>
void for_heads(const Places& places, std::size_t floats, F f) {
  const std::int64_t threads = std::min<std::int64_t>(at::get_num_threads(), places.groups());
  const at::Tensor scratch =
      at::empty({threads, static_cast<std::int64_t>(floats)}, at::TensorOptions(at::kFloat));
  auto* base = scratch.data_ptr<float>();
  at::parallel_for(0, places.groups(), 1, [&](std::int64_t begin, std::int64_t end) {
    float* own = base + static_cast<std::size_t>(at::get_thread_num()) * floats;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < places.each; ++j) f(i, j, own);
  });
}

void keep_heads(AutogradContext* ctx, HeadCounts heads, std::int64_t tokens) {
  ctx->saved_data["heads"] = std::vector<std::int64_t>{heads.query, heads.key};
  ctx->saved_data["tokens"] = tokens;
}
HeadCounts kept_heads(AutogradContext* ctx) {
  const std::vector<std::int64_t> heads = ctx->saved_data["heads"].toIntVector();
  return {heads[0], heads[1]};
}
std::int64_t kept_tokens(AutogradContext* ctx) { return ctx->saved_data["tokens"].toInt(); }

// Our kernels (attention_kernels.h): they read and write the heads where they stand in the fused
// tensors. bf16 is widened for them and kept narrow from forward to backward.
struct OwnAttention : Function<OwnAttention> {
  static bool takes(const at::Tensor& qkv_NF, HeadCounts heads) {
    return tensor::wide_type(qkv_NF.scalar_type()) == at::kFloat &&
           head_size(qkv_NF, heads) % static_cast<std::int64_t>(kHeadSizeStep) == 0;
  }
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& any_qkv_NF, HeadCounts heads,
                            std::int64_t tokens) {
    const at::ScalarType type = any_qkv_NF.scalar_type();
    const at::Tensor narrow_NF = any_qkv_NF.contiguous(), qkv_NF = narrow_NF.to(at::kFloat);
    const Places all = places_of(qkv_NF, heads, tokens);
    const at::Tensor y_NC = at::empty({qkv_NF.size(0), all.width()}, qkv_NF.options());
    const at::Tensor log_sums = at::empty({all.groups() * all.each, tokens}, qkv_NF.options());
    const auto* qkv = qkv_NF.const_data_ptr<float>();
    auto* y = y_NC.data_ptr<float>();
    auto* sums = log_sums.data_ptr<float>();
    const AttentionKernels& kernels = best_attention_kernels();
    const AttentionHead first = all.head(qkv, 0, 0);
    for_heads(all, kernels.forward_scratch(first.tokens, first.size),
              [&](std::int64_t i, std::int64_t j, float* scratch) {
                kernels.forward(all.head(qkv, i, j), y + all.in_output(i, j),
                                sums + all.log_sums(i, j), scratch);
              });
    const at::Tensor narrow_NC = y_NC.to(type);
    ctx->save_for_backward({narrow_NF, narrow_NC, log_sums});
    keep_heads(ctx, heads, tokens);
    return narrow_NC;
  }
  static variable_list backward(AutogradContext* ctx, variable_list any_gy) {
    const auto saved = ctx->get_saved_variables();
    const Places all = places_of(saved[0], kept_heads(ctx), kept_tokens(ctx));
    const at::Tensor qkv_NF = saved[0].to(at::kFloat), y_NC = saved[1].to(at::kFloat);
    const at::Tensor gy_NC = any_gy[0].contiguous().to(at::kFloat);
    const at::Tensor gqkv_NF = at::empty_like(qkv_NF);
    const auto* qkv = qkv_NF.const_data_ptr<float>();
    const auto* y = y_NC.const_data_ptr<float>();
    const auto* sums = saved[2].const_data_ptr<float>();
    const auto* gy = gy_NC.const_data_ptr<float>();
    auto* gqkv = gqkv_NF.data_ptr<float>();
    const AttentionKernels& kernels = best_attention_kernels();
    const AttentionHead first = all.head(qkv, 0, 0);
    for_heads(all, kernels.backward_scratch(first.tokens, first.size),
              [&](std::int64_t i, std::int64_t j, float* scratch) {
                kernels.backward(all.head(qkv, i, j),
                                 {.y = y + all.in_output(i, j),
                                  .gy = gy + all.in_output(i, j),
                                  .log_sums = sums + all.log_sums(i, j),
                                  .gq = gqkv + all.query(i, j),
                                  .gk = gqkv + all.key(i),
                                  .gv = gqkv + all.value(i),
                                  .add_keys = j > 0},
                                 scratch);
              });
    return {gqkv_NF.to(saved[0].scalar_type()), {}, {}};
  }
};

// LibTorch's CPU flash kernel. Its own autograd would make a gradient for q, k and v each and
// concatenate them; here they are put once into the fused gradient.
struct FusedAttention : Function<FusedAttention> {
  static Qkv with_keys_for_queries(const at::Tensor& qkv_NF, HeadCounts heads,
                                   std::int64_t tokens) {
    const Qkv x = split_heads(qkv_NF, heads, tokens);
    return {x.q_BHTD, for_queries(x.k_BGTD, heads), for_queries(x.v_BGTD, heads)};
  }
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv_NF, HeadCounts heads,
                            std::int64_t tokens) {
    const Qkv x = with_keys_for_queries(qkv_NF, heads, tokens);
    auto [y_BHTD, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        x.q_BHTD, x.k_BGTD, x.v_BGTD, 0.0, /*is_causal=*/true);
    ctx->save_for_backward({qkv_NF, y_BHTD, logsumexp});
    keep_heads(ctx, heads, tokens);
    return merge_heads(y_BHTD);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    const HeadCounts heads = kept_heads(ctx);
    const std::int64_t tokens = kept_tokens(ctx);
    const Qkv x = with_keys_for_queries(saved[0], heads, tokens);
    const at::Tensor gy_BHTD =
        gy[0].view({-1, tokens, heads.query, gy[0].size(1) / heads.query}).transpose(1, 2);
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gy_BHTD, x.q_BHTD, x.k_BGTD, x.v_BGTD, saved[1], saved[2], 0.0, /*is_causal=*/true);
    return {merge_gradients({gq, gk, gv}, heads), {}, {}};
  }
};

// Weights as a tensor, so that they can be dropped. Stock autograd: this path is the exception.
at::Tensor unfused(const at::Tensor& qkv_NF, HeadCounts heads, const parallel::MicroBatch& batch,
                   const DropoutSite& site) {
  const std::int64_t tokens = batch.sequence;
  const at::ScalarType type = qkv_NF.scalar_type(), wide = tensor::wide_type(type);
  const Qkv x = split_heads(qkv_NF.to(wide), heads, tokens);
  const at::Tensor k_BHTD = for_queries(x.k_BGTD, heads), v_BHTD = for_queries(x.v_BGTD, heads);
  const double scale = 1.0 / std::sqrt(static_cast<double>(x.q_BHTD.size(3)));
  const at::Tensor future_TT = at::ones({tokens, tokens}, at::kBool).triu_(1);
  const at::Tensor scores_BHTT =
      at::matmul(x.q_BHTD, k_BHTD.transpose(2, 3)).mul(scale).masked_fill(future_TT, -INFINITY);
  at::Tensor weights_BHTT = at::softmax(scores_BHTT, 3);
  std::vector<at::Tensor> masks;
  for (std::int64_t head = 0; head < heads.query; ++head) {
    DropoutSite of_head = site;
    of_head.site = site.site + static_cast<int>(head);
    masks.push_back(dropout_mask(batch, tokens, of_head, wide).view({-1, tokens, tokens}));
  }
  weights_BHTT = weights_BHTT * at::stack(masks, 1);
  return merge_heads(at::matmul(weights_BHTT, v_BHTD)).to(type);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv_NF, HeadCounts heads,
                            const parallel::MicroBatch& batch, const DropoutSite& site) {
  if (site.p > 0 && at::GradMode::is_enabled()) return unfused(qkv_NF, heads, batch, site);
  if (OwnAttention::takes(qkv_NF, heads)) return OwnAttention::apply(qkv_NF, heads, batch.sequence);
  return FusedAttention::apply(qkv_NF, heads, batch.sequence);
}

KvCache::KvCache(int layers, std::int64_t key_heads, std::int64_t head_size, std::int64_t capacity,
                 at::ScalarType type)
    : capacity_(capacity) {
  for (int layer = 0; layer < layers; ++layer) {
    layers_.push_back({at::empty({key_heads, capacity, head_size}, type),
                       at::empty({key_heads, capacity, head_size}, type)});
  }
}

at::Tensor KvCache::attend(int layer, const at::Tensor& qkv_NF, HeadCounts heads) {
  const std::int64_t rows = qkv_NF.size(0);
  if ((tokens_ > 0 && rows != 1) || tokens_ + rows > capacity_) {
    throw std::invalid_argument(fmt::format(
        "{} rows behind {} of {} tokens: a cache takes a prompt, then one row at a time", rows,
        tokens_, capacity_));
  }
  const Qkv x = split_heads(qkv_NF, heads, rows);
  Layer& kept = layers_.at(static_cast<std::size_t>(layer));
  kept.k_GTD.narrow(1, tokens_, rows).copy_(x.k_BGTD.squeeze(0));
  kept.v_GTD.narrow(1, tokens_, rows).copy_(x.v_BGTD.squeeze(0));
  const auto seen = [&](const at::Tensor& of_GTD) {
    return for_queries(of_GTD.narrow(1, 0, tokens_ + rows).unsqueeze(0), heads);
  };
  // One row sees everything that is kept, so only a prompt needs the mask.
  const auto [y_BHTD, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      x.q_BHTD, seen(kept.k_GTD), seen(kept.v_GTD), 0.0, /*is_causal=*/rows > 1);
  return merge_heads(y_BHTD);
}

}  // namespace tutti::model
