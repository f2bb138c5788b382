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
  at::Tensor q_BHTD, k_BHTD, v_BHTD;  // views
};

Qkv split_heads(const at::Tensor& qkv_N3C, std::int64_t heads, std::int64_t tokens) {
  const std::int64_t size = qkv_N3C.size(1) / (3 * heads);
  const at::Tensor qkv_BT3HD = qkv_N3C.view({-1, tokens, 3, heads, size});
  const auto part = [&](std::int64_t i) { return qkv_BT3HD.select(2, i).transpose(1, 2); };
  return {part(0), part(1), part(2)};
}

at::Tensor merge_heads(const at::Tensor& y_BHTD) {
  const std::int64_t rows = y_BHTD.size(0) * y_BHTD.size(2);
  return y_BHTD.transpose(1, 2).reshape({rows, y_BHTD.size(1) * y_BHTD.size(3)});
}

// Where the heads of all sequences lie. `i` counts the heads of the first sequence, then those of
// the next.
struct Heads {
  std::int64_t sequences, tokens, heads, size;

  [[nodiscard]] std::int64_t count() const { return sequences * heads; }
  [[nodiscard]] std::int64_t width() const { return heads * size; }
  [[nodiscard]] std::int64_t begin(std::int64_t i) const {  // in [N, C]
    return i / heads * tokens * width() + i % heads * size;
  }
  [[nodiscard]] std::int64_t begin_fused(std::int64_t i) const {  // q's, in [N, 3 C]
    return i / heads * tokens * 3 * width() + i % heads * size;
  }
  [[nodiscard]] AttentionHead head(const float* qkv, std::int64_t i) const {
    const float* q = qkv + begin_fused(i);
    return {.tokens = static_cast<std::size_t>(tokens),
            .size = static_cast<std::size_t>(size),
            .stride = static_cast<std::size_t>(3 * width()),
            .q = q,
            .k = q + width(),
            .v = q + 2 * width(),
            .y_stride = static_cast<std::size_t>(width())};
  }
};

Heads heads_of(const at::Tensor& qkv_N3C, std::int64_t heads, std::int64_t tokens) {
  return {qkv_N3C.size(0) / tokens, tokens, heads, qkv_N3C.size(1) / (3 * heads)};
}

// f(i, scratch of `floats` of this thread's own) for every head. A head is one thread's, so its
// bits do not depend on the number of threads.
template <class F>
void for_heads(const Heads& heads, std::size_t floats, F f) {
  const std::int64_t threads = std::min<std::int64_t>(at::get_num_threads(), heads.count());
  const at::Tensor scratch =
      at::empty({threads, static_cast<std::int64_t>(floats)}, at::TensorOptions(at::kFloat));
  auto* base = scratch.data_ptr<float>();
  at::parallel_for(0, heads.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    float* own = base + static_cast<std::size_t>(at::get_thread_num()) * floats;
    for (std::int64_t i = begin; i < end; ++i) f(i, own);
  });
}

// Our kernels (attention_kernels.h): they read and write the heads where they stand in the fused
// tensors. bf16 is widened for them and kept narrow from forward to backward.
struct OwnAttention : Function<OwnAttention> {
  static bool takes(const at::Tensor& qkv_N3C, std::int64_t heads) {
    return tensor::wide_type(qkv_N3C.scalar_type()) == at::kFloat &&
           qkv_N3C.size(1) / (3 * heads) % static_cast<std::int64_t>(kHeadSizeStep) == 0;
  }
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& any_qkv_N3C, std::int64_t heads,
                            std::int64_t tokens) {
    const at::ScalarType type = any_qkv_N3C.scalar_type();
    const at::Tensor narrow_N3C = any_qkv_N3C.contiguous(), qkv_N3C = narrow_N3C.to(at::kFloat);
    const Heads all = heads_of(qkv_N3C, heads, tokens);
    const at::Tensor y_NC = at::empty({qkv_N3C.size(0), all.width()}, qkv_N3C.options());
    const at::Tensor log_sums = at::empty({all.count(), tokens}, qkv_N3C.options());
    const auto* qkv = qkv_N3C.const_data_ptr<float>();
    auto* y = y_NC.data_ptr<float>();
    auto* sums = log_sums.data_ptr<float>();
    const AttentionKernels& kernels = best_attention_kernels();
    const AttentionHead first = all.head(qkv, 0);
    for_heads(all, kernels.forward_scratch(first.tokens, first.size),
              [&](std::int64_t i, float* scratch) {
                kernels.forward(all.head(qkv, i), y + all.begin(i), sums + i * tokens, scratch);
              });
    const at::Tensor narrow_NC = y_NC.to(type);
    ctx->save_for_backward({narrow_N3C, narrow_NC, log_sums});
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["tokens"] = tokens;
    return narrow_NC;
  }
  static variable_list backward(AutogradContext* ctx, variable_list any_gy) {
    const auto saved = ctx->get_saved_variables();
    const std::int64_t tokens = ctx->saved_data["tokens"].toInt();
    const Heads all = heads_of(saved[0], ctx->saved_data["heads"].toInt(), tokens);
    const at::Tensor qkv_N3C = saved[0].to(at::kFloat), y_NC = saved[1].to(at::kFloat);
    const at::Tensor gy_NC = any_gy[0].contiguous().to(at::kFloat);
    const at::Tensor gqkv_N3C = at::empty_like(qkv_N3C);
    const auto* qkv = qkv_N3C.const_data_ptr<float>();
    const auto* y = y_NC.const_data_ptr<float>();
    const auto* sums = saved[2].const_data_ptr<float>();
    const auto* gy = gy_NC.const_data_ptr<float>();
    auto* gqkv = gqkv_N3C.data_ptr<float>();
    const AttentionKernels& kernels = best_attention_kernels();
    const AttentionHead first = all.head(qkv, 0);
    for_heads(all, kernels.backward_scratch(first.tokens, first.size),
              [&](std::int64_t i, float* scratch) {
                float* gq = gqkv + all.begin_fused(i);
                kernels.backward(all.head(qkv, i),
                                 {.y = y + all.begin(i),
                                  .gy = gy + all.begin(i),
                                  .log_sums = sums + i * tokens,
                                  .gq = gq,
                                  .gk = gq + all.width(),
                                  .gv = gq + 2 * all.width()},
                                 scratch);
              });
    return {gqkv_N3C.to(saved[0].scalar_type()), {}, {}};
  }
};

// LibTorch's CPU flash kernel. Its own autograd would make a gradient for q, k and v each and
// concatenate them; here they are copied once into the fused gradient.
struct FusedAttention : Function<FusedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv_N3C, std::int64_t heads,
                            std::int64_t tokens) {
    const Qkv x = split_heads(qkv_N3C, heads, tokens);
    auto [y_BHTD, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        x.q_BHTD, x.k_BHTD, x.v_BHTD, 0.0, /*is_causal=*/true);
    ctx->save_for_backward({qkv_N3C, y_BHTD, logsumexp});
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["tokens"] = tokens;
    return merge_heads(y_BHTD);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    const std::int64_t heads = ctx->saved_data["heads"].toInt();
    const std::int64_t tokens = ctx->saved_data["tokens"].toInt();
    const Qkv x = split_heads(saved[0], heads, tokens);
    const at::Tensor gy_BHTD =
        gy[0].view({-1, tokens, heads, gy[0].size(1) / heads}).transpose(1, 2);
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gy_BHTD, x.q_BHTD, x.k_BHTD, x.v_BHTD, saved[1], saved[2], 0.0, /*is_causal=*/true);
    const at::Tensor gqkv_N3C = at::empty_like(saved[0]);
    const Qkv to = split_heads(gqkv_N3C, heads, tokens);
    to.q_BHTD.copy_(gq);
    to.k_BHTD.copy_(gk);
    to.v_BHTD.copy_(gv);
    return {gqkv_N3C, {}, {}};
  }
};

// Weights as a tensor, so that they can be dropped. Stock autograd: this path is the exception.
at::Tensor unfused(const at::Tensor& qkv_N3C, std::int64_t heads, const parallel::MicroBatch& batch,
                   const DropoutSite& site) {
  const std::int64_t tokens = batch.sequence;
  const at::ScalarType type = qkv_N3C.scalar_type(), wide = tensor::wide_type(type);
  const Qkv x = split_heads(qkv_N3C.to(wide), heads, tokens);
  const double scale = 1.0 / std::sqrt(static_cast<double>(x.q_BHTD.size(3)));
  const at::Tensor future_TT = at::ones({tokens, tokens}, at::kBool).triu_(1);
  const at::Tensor scores_BHTT =
      at::matmul(x.q_BHTD, x.k_BHTD.transpose(2, 3)).mul(scale).masked_fill(future_TT, -INFINITY);
  at::Tensor weights_BHTT = at::softmax(scores_BHTT, 3);
  std::vector<at::Tensor> masks;
  for (std::int64_t head = 0; head < heads; ++head) {
    DropoutSite of_head = site;
    of_head.site = site.site + static_cast<int>(head);
    masks.push_back(dropout_mask(batch, tokens, of_head, wide).view({-1, tokens, tokens}));
  }
  weights_BHTT = weights_BHTT * at::stack(masks, 1);
  return merge_heads(at::matmul(weights_BHTT, x.v_BHTD)).to(type);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv_N3C, std::int64_t heads,
                            const parallel::MicroBatch& batch, const DropoutSite& site) {
  if (site.p > 0 && at::GradMode::is_enabled()) return unfused(qkv_N3C, heads, batch, site);
  if (OwnAttention::takes(qkv_N3C, heads))
    return OwnAttention::apply(qkv_N3C, heads, batch.sequence);
  return FusedAttention::apply(qkv_N3C, heads, batch.sequence);
}

KvCache::KvCache(int layers, std::int64_t heads, std::int64_t head_size, std::int64_t capacity,
                 at::ScalarType type)
    : capacity_(capacity) {
  for (int layer = 0; layer < layers; ++layer) {
    layers_.push_back({at::empty({heads, capacity, head_size}, type),
                       at::empty({heads, capacity, head_size}, type)});
  }
}

at::Tensor KvCache::attend(int layer, const at::Tensor& qkv_N3C, std::int64_t heads) {
  const std::int64_t rows = qkv_N3C.size(0);
  if ((tokens_ > 0 && rows != 1) || tokens_ + rows > capacity_) {
    throw std::invalid_argument(fmt::format(
        "{} rows behind {} of {} tokens: a cache takes a prompt, then one row at a time", rows,
        tokens_, capacity_));
  }
  const Qkv x = split_heads(qkv_N3C, heads, rows);
  Layer& kept = layers_.at(static_cast<std::size_t>(layer));
  kept.k_HTD.narrow(1, tokens_, rows).copy_(x.k_BHTD.squeeze(0));
  kept.v_HTD.narrow(1, tokens_, rows).copy_(x.v_BHTD.squeeze(0));
  const std::int64_t seen = tokens_ + rows;
  // One row sees everything that is kept, so only a prompt needs the mask.
  const auto [y_BHTD, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      x.q_BHTD, kept.k_HTD.narrow(1, 0, seen).unsqueeze(0),
      kept.v_HTD.narrow(1, 0, seen).unsqueeze(0), 0.0, /*is_causal=*/rows > 1);
  return merge_heads(y_BHTD);
}

}  // namespace tutti::model
