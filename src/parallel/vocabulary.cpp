// Both ends of a model, where rows are tokens: look-up, and logits with their loss.
#include "parallel/vocabulary.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "parallel/function_parts.h"
#include "parallel/row_kernels.h"

namespace tutti::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Logits of 124M: 51 MB at a time instead of 206 MB per 4 sequences.
constexpr std::int64_t kHeadRows = 256;

void contribute_rows(const Weight& weight, const at::Tensor& rows_N, const at::Tensor& gy_NC) {
  weight.grads->push(weight.param, [rows_N, gy_NC](at::Tensor& dw_VC, bool first) {
    if (first) dw_VC.zero_();
    dw_VC.index_add_(0, rows_N, gy_NC);
  });
}

struct Embedding : Function<Embedding> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tokens_N, std::int64_t sequence,
                            std::int64_t first, const at::Tensor& wte_VC, const Weight* wte,
                            const Weight* wpe) {
    ctx->save_for_backward({tokens_N});
    ctx->saved_data["sequence"] = sequence;
    ctx->saved_data["first"] = first;
    keep(ctx, {{"wte", wte}, {"wpe", wpe}});
    const at::Tensor x_NC = at::embedding(wte_VC, tokens_N);
    const at::Tensor positions_TC = wpe->value.narrow(0, first, sequence);
    return x_NC.view({-1, sequence, x_NC.size(1)}).add_(positions_TC).view_as(x_NC);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const at::Tensor tokens_N = ctx->get_saved_variables()[0];
    const std::int64_t sequence = ctx->saved_data["sequence"].toInt();
    const std::int64_t from = ctx->saved_data["first"].toInt();
    const Weight& wpe = kept(ctx, "wpe");
    contribute_rows(kept(ctx, "wte"), tokens_N, gy[0]);
    const at::Tensor gy_TC = gy[0].view({-1, sequence, gy[0].size(1)}).sum(0);
    wpe.grads->push(wpe.param, [gy_TC, from, sequence](at::Tensor& dw_TC, bool first) {
      if (first) dw_TC.zero_();
      dw_TC.narrow(0, from, sequence).add_(gy_TC);
    });
    return {{}, {}, {}, {}, {}, {}};
  }
};

[[noreturn]] void throw_outside(std::int64_t token, std::int64_t vocab) {
  throw core::RunError(fmt::format(
      "Token {} is outside the vocabulary of {} tokens: the token file is damaged. Make "
      "it again with `tutti data prepare`.",
      token, vocab));
}

// In place: logits become d(sum of losses)/d(logits) times `scale`; returned is the sum of the
// losses, added in the order of the rows.
double loss_and_grad_(at::Tensor& logits_NV, const at::Tensor& targets_N, double scale,
                      bool want_grad) {
  const std::int64_t vocab = logits_NV.size(1);
  std::vector<double> losses(size_of(logits_NV.size(0)), 0.0);
  const auto* targets = targets_N.const_data_ptr<std::int64_t>();
  AT_DISPATCH_FLOATING_TYPES(logits_NV.scalar_type(), "cross_entropy", [&] {
    auto* logits = logits_NV.data_ptr<scalar_t>();
    at::parallel_for(0, logits_NV.size(0), grain(vocab), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        scalar_t* of_row = logits + row * vocab;
        if (targets[row] >= vocab) throw_outside(targets[row], vocab);
        if (targets[row] >= 0) {
          losses[size_of(row)] =
              cross_entropy(of_row, size_of(vocab), size_of(targets[row]), scale, want_grad);
        } else if (want_grad) {
          std::fill_n(of_row, vocab, scalar_t{0});
        }
      }
    });
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

struct HeadLoss : Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NC, const at::Tensor& w_VC,
                            const at::Tensor& targets_N, const Weight* w, double scale,
                            bool training) {
    const std::int64_t rows = x_NC.size(0);
    at::Tensor logits = at::empty({std::min(rows, kHeadRows), w_VC.size(0)}, x_NC.options());
    at::Tensor gx_NC = training ? at::empty_like(x_NC) : at::Tensor();
    double loss = 0;
    for (std::int64_t begin = 0; begin < rows; begin += kHeadRows) {
      const std::int64_t count = std::min(kHeadRows, rows - begin);
      const at::Tensor x = x_NC.narrow(0, begin, count);
      at::Tensor piece = logits.narrow(0, 0, count);
      at::mm_out(piece, x, w_VC.t());
      loss += loss_and_grad_(piece, targets_N.narrow(0, begin, count), scale, training);
      if (!training) continue;
      at::Tensor gx = gx_NC.narrow(0, begin, count);
      at::mm_out(gx, piece, w_VC);
      accumulate(*w, piece, x, begin == 0, begin + count == rows);
    }
    if (training) ctx->save_for_backward({gx_NC});
    return at::scalar_tensor(loss, at::kDouble);
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

at::Tensor embedding(const at::Tensor& tokens_N, std::int64_t sequence, const Weight& wte_VC,
                     const Weight& wpe_TC, std::int64_t first) {
  return Embedding::apply(tokens_N, sequence, first, wte_VC.value, &wte_VC, &wpe_TC);
}

at::Tensor head_loss(const at::Tensor& x_NC, const at::Tensor& targets_N, const Weight& w_VC,
                     double scale) {
  // Inside forward autograd is always off, so the question is asked here.
  const bool training = at::GradMode::is_enabled() && x_NC.requires_grad();
  return HeadLoss::apply(x_NC, w_VC.value, targets_N, &w_VC, scale, training);
}

}  // namespace tutti::parallel
