// Autograd functions of the layers with parameters.
#include "parallel/functions.h"

#include <algorithm>

namespace tutti::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr double kNormEpsilon = 1e-5;
constexpr std::int64_t kHeadRows =
    256;  // logits of 124M: 51 MB at a time instead of 206 MB per 4 sequences

// dw = x or dw += x, for gradients that an operator of LibTorch has already made.
void contribute(const Weight& weight, const at::Tensor& grad) {
  weight.grads->push(weight.param, [grad](at::Tensor& dw, bool first) {
    if (first) {
      dw.copy_(grad);
    } else {
      dw.add_(grad);
    }
  });
}

void contribute_product(const Weight& weight, const at::Tensor& gy_NO, const at::Tensor& x_NI) {
  weight.grads->push(weight.param, [gy_NO, x_NI](at::Tensor& dw_OI, bool first) {
    at::addmm_out(dw_OI, dw_OI, gy_NO.t(), x_NI, /*beta=*/first ? 0 : 1, /*alpha=*/1);
  });
}

void contribute_column_sum(const Weight& weight, const at::Tensor& gy_NO) {
  weight.grads->push(weight.param, [gy_NO](at::Tensor& db_O, bool first) {
    if (first) {
      at::sum_out(db_O, gy_NO, {0});
    } else {
      db_O.add_(gy_NO.sum(0));
    }
  });
}

void contribute_rows(const Weight& weight, const at::Tensor& rows_N, const at::Tensor& gy_NC) {
  weight.grads->push(weight.param, [rows_N, gy_NC](at::Tensor& dw_VC, bool first) {
    if (first) dw_VC.zero_();
    dw_VC.index_add_(0, rows_N, gy_NC);
  });
}

struct Linear : Function<Linear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NI, const at::Tensor& w_OI,
                            const Weight* w, const Weight* b) {
    ctx->save_for_backward({x_NI, w_OI});
    ctx->saved_data["w"] = reinterpret_cast<std::int64_t>(w);
    ctx->saved_data["b"] = reinterpret_cast<std::int64_t>(b);
    if (b->param < 0) return at::mm(x_NI, w_OI.t());
    return at::addmm(b->value, x_NI, w_OI.t());
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    const auto* w = reinterpret_cast<const Weight*>(ctx->saved_data["w"].toInt());
    const auto* b = reinterpret_cast<const Weight*>(ctx->saved_data["b"].toInt());
    contribute_product(*w, gy[0], saved[0]);
    if (b->param >= 0) contribute_column_sum(*b, gy[0]);
    return {at::mm(gy[0], saved[1]), {}, {}, {}};
  }
};

struct LayerNorm : Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NC, const at::Tensor& w_C,
                            const Weight* w, const Weight* b) {
    auto [y_NC, mean, rstd] =
        at::native_layer_norm(x_NC, {x_NC.size(-1)}, w_C, b->value, kNormEpsilon);
    ctx->save_for_backward({x_NC, w_C, b->value, mean, rstd});
    ctx->saved_data["w"] = reinterpret_cast<std::int64_t>(w);
    ctx->saved_data["b"] = reinterpret_cast<std::int64_t>(b);
    return y_NC;
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    const auto* w = reinterpret_cast<const Weight*>(ctx->saved_data["w"].toInt());
    const auto* b = reinterpret_cast<const Weight*>(ctx->saved_data["b"].toInt());
    auto [gx_NC, gw_C, gb_C] =
        at::native_layer_norm_backward(gy[0], saved[0], {saved[0].size(-1)}, saved[3], saved[4],
                                       saved[1], saved[2], {true, true, true});
    contribute(*w, gw_C);
    contribute(*b, gb_C);
    return {gx_NC, {}, {}, {}};
  }
};

struct Embedding : Function<Embedding> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tokens_N, std::int64_t sequence,
                            const at::Tensor& wte_VC, const Weight* wte, const Weight* wpe) {
    ctx->save_for_backward({tokens_N});
    ctx->saved_data["sequence"] = sequence;
    ctx->saved_data["wte"] = reinterpret_cast<std::int64_t>(wte);
    ctx->saved_data["wpe"] = reinterpret_cast<std::int64_t>(wpe);
    const at::Tensor x_NC = at::embedding(wte_VC, tokens_N);
    const at::Tensor positions_TC = wpe->value.narrow(0, 0, sequence);
    return x_NC.view({-1, sequence, x_NC.size(1)}).add_(positions_TC).view_as(x_NC);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const at::Tensor tokens_N = ctx->get_saved_variables()[0];
    const std::int64_t sequence = ctx->saved_data["sequence"].toInt();
    const auto* wte = reinterpret_cast<const Weight*>(ctx->saved_data["wte"].toInt());
    const auto* wpe = reinterpret_cast<const Weight*>(ctx->saved_data["wpe"].toInt());
    contribute_rows(*wte, tokens_N, gy[0]);
    const at::Tensor gy_TC = gy[0].view({-1, sequence, gy[0].size(1)}).sum(0);
    wpe->grads->push(wpe->param, [gy_TC, sequence](at::Tensor& dw_TC, bool first) {
      if (first) dw_TC.zero_();
      dw_TC.narrow(0, 0, sequence).add_(gy_TC);
    });
    return {{}, {}, {}, {}, {}};
  }
};

// In place: logits become d(sum of losses)/d(logits) times `scale`; returned is the sum of the
// losses. max and exp as in every stable softmax; in fp64 where the sum runs over rows.
at::Tensor loss_and_grad_(at::Tensor& logits_NV, const at::Tensor& targets_N, double scale,
                          bool want_grad) {
  const at::Tensor counts_N1 = targets_N.ge(0).unsqueeze(1);
  const at::Tensor index_N1 = targets_N.clamp_min(0).unsqueeze(1);
  logits_NV.sub_(logits_NV.amax(1, /*keepdim=*/true));
  const at::Tensor picked_N1 = logits_NV.gather(1, index_N1);
  logits_NV.exp_();
  const at::Tensor sums_N1 = logits_NV.sum(1, /*keepdim=*/true);
  const at::Tensor losses_N1 = sums_N1.log().sub_(picked_N1).mul_(counts_N1);
  if (want_grad) {
    const at::Tensor weights_N1 = counts_N1.to(logits_NV.scalar_type()).mul_(scale);
    logits_NV.mul_(weights_N1 / sums_N1);
    logits_NV.scatter_add_(1, index_N1, -weights_N1);
  }
  return losses_N1.sum(at::kDouble);
}

struct HeadLoss : Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NC, const at::Tensor& w_VC,
                            const at::Tensor& targets_N, const Weight* w, double scale,
                            bool training) {
    const std::int64_t rows = x_NC.size(0);
    at::Tensor logits = at::empty({std::min(rows, kHeadRows), w_VC.size(0)}, x_NC.options());
    at::Tensor gx_NC = training ? at::empty_like(x_NC) : at::Tensor();
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (std::int64_t begin = 0; begin < rows; begin += kHeadRows) {
      const std::int64_t count = std::min(kHeadRows, rows - begin);
      const at::Tensor x = x_NC.narrow(0, begin, count);
      at::Tensor piece = logits.narrow(0, 0, count);
      at::mm_out(piece, x, w_VC.t());
      loss.add_(loss_and_grad_(piece, targets_N.narrow(0, begin, count), scale, training));
      if (!training) continue;
      at::Tensor gx = gx_NC.narrow(0, begin, count);
      at::mm_out(gx, piece, w_VC);
      accumulate(*w, piece, x, begin == 0, begin + count == rows);
    }
    if (training) ctx->save_for_backward({gx_NC});
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, variable_list) {
    return {ctx->get_saved_variables()[0], {}, {}, {}, {}, {}};
  }

 private:
  // The pieces of one micro-batch are one contribution; they cannot be queued, since the logits are
  // about to go.
  static void accumulate(const Weight& w, const at::Tensor& dlogits, const at::Tensor& x,
                         bool first_piece, bool last_piece);
};

void HeadLoss::accumulate(const Weight& w, const at::Tensor& dlogits, const at::Tensor& x,
                          bool first_piece, bool last_piece) {
  const auto job = [&](at::Tensor& dw, bool first) {
    at::addmm_out(dw, dw, dlogits.t(), x, /*beta=*/first && first_piece ? 0 : 1, /*alpha=*/1);
  };
  w.grads->write_now(w.param, job, last_piece);
}

}  // namespace

at::Tensor linear(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O) {
  return Linear::apply(x_NI, w_OI.value, &w_OI, &b_O);
}

at::Tensor layer_norm(const at::Tensor& x_NC, const Weight& w_C, const Weight& b_C) {
  return LayerNorm::apply(x_NC, w_C.value, &w_C, &b_C);
}

at::Tensor embedding(const at::Tensor& tokens_N, std::int64_t sequence, const Weight& wte_VC,
                     const Weight& wpe_TC) {
  return Embedding::apply(tokens_N, sequence, wte_VC.value, &wte_VC, &wpe_TC);
}

at::Tensor head_loss(const at::Tensor& x_NC, const at::Tensor& targets_N, const Weight& w_VC,
                     double scale) {
  // Inside forward autograd is always off, so the question is asked here.
  const bool training = at::GradMode::is_enabled() && x_NC.requires_grad();
  return HeadLoss::apply(x_NC, w_VC.value, targets_N, &w_VC, scale, training);
}

}  // namespace tutti::parallel
