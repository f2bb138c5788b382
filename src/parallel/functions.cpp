// Autograd functions of the layers with parameters.
#include "parallel/functions.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "core/error.h"
#include "parallel/function_parts.h"
#include "parallel/row_kernels.h"
#include "tensor/products.h"

namespace tutti::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr double kNormEpsilon = 1e-5;

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
    tensor::product_into(dw_OI, gy_NO.t(), x_NI, /*add=*/!first);
  });
}

// f(begin row, rows) on the threads' shares of the rows.
template <class F>
void for_rows(const at::Tensor& rows_NC, F f) {
  at::parallel_for(0, rows_NC.size(0), grain(rows_NC.size(1)),
                   [&](std::int64_t begin, std::int64_t end) { f(begin, size_of(end - begin)); });
}

// f(range of columns): a column's sum is one thread's, so its bits do not depend on their number.
template <class F>
void for_columns(const at::Tensor& rows_NC, F f) {
  const std::int64_t rows = rows_NC.size(0), columns = rows_NC.size(1);
  at::parallel_for(0, columns, grain(rows), [&](std::int64_t begin, std::int64_t end) {
    f(Columns{size_of(rows), size_of(columns), size_of(begin), size_of(end)});
  });
}

void contribute_column_sum(const Weight& weight, const at::Tensor& grad) {
  weight.grads->push(weight.param, [gy_NO = grad.contiguous()](at::Tensor& db_O, bool first) {
    AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, gy_NO.scalar_type(), "column_sums", [&] {
      const auto* gy = gy_NO.const_data_ptr<scalar_t>();
      auto* db = db_O.data_ptr<Wide<scalar_t>>();
      for_columns(gy_NO, [&](const Columns& range) { column_sums(gy, db, first, range); });
    });
  });
}

// y += b (+ residual, if defined).
void add_bias_(at::Tensor& y_NO, const at::Tensor& b_O, const at::Tensor& residual_NO) {
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, y_NO.scalar_type(), "add_bias", [&] {
    const std::int64_t columns = y_NO.size(1);
    auto* y = y_NO.data_ptr<scalar_t>();
    const auto* b = b_O.const_data_ptr<scalar_t>();
    const auto* residual = residual_NO.defined() ? residual_NO.const_data_ptr<scalar_t>() : nullptr;
    for_rows(y_NO, [&](std::int64_t first, std::size_t rows) {
      scalar_t* at = y + first * columns;
      if (residual == nullptr) {
        add_bias(at, b, rows, size_of(columns));
      } else {
        add_bias_and_residual(at, b, residual + first * columns, rows, size_of(columns));
      }
    });
  });
}

// y + b (+ residual), in place.
void add_rest_(at::Tensor& y_NO, const Weight& b_O, const std::optional<at::Tensor>& residual_NO) {
  if (b_O.param >= 0) {
    add_bias_(y_NO, b_O.value, residual_NO ? residual_NO->contiguous() : at::Tensor());
  } else if (residual_NO) {
    y_NO.add_(*residual_NO);
  }
}

// Split by columns: each rank has all rows of x and gives its columns.
at::Tensor column_product(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O) {
  at::Tensor y_NO = tensor::product(x_NI, w_OI.value.t());
  add_rest_(y_NO, b_O, std::nullopt);
  return y_NO;
}

// The gradient of this rank's rows of x. The weight's is made while the sum is on its way.
at::Tensor column_product_backward(const at::Tensor& gy_NO, const at::Tensor& x_NI,
                                   const Weight& w_OI, const Weight& b_O, TensorParallel& tp) {
  TensorParallel::Sum gx = tp.start_leave(tp.product(gy_NO, w_OI.value));
  contribute_product(w_OI, gy_NO, x_NI);
  if (b_O.param >= 0) contribute_column_sum(b_O, gy_NO);
  return tp.finish(std::move(gx));
}

// Split by rows of w^T: each rank has its columns of x and gives a summand. What comes behind the
// sum is added once.
at::Tensor row_product(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O,
                       const std::optional<at::Tensor>& residual_nO, TensorParallel& tp) {
  at::Tensor y_nO = tp.leave(tp.product(x_NI, w_OI.value.t()));
  add_rest_(y_nO, b_O, residual_nO);
  return y_nO;
}

// The gradient of this rank's columns of x. A residual's gradient is gy itself.
at::Tensor row_product_backward(const at::Tensor& gy_nO, const at::Tensor& x_NI, const Weight& w_OI,
                                const Weight& b_O, TensorParallel& tp) {
  const at::Tensor gy_NO = tp.enter(gy_nO, x_NI.size(0));
  contribute_product(w_OI, gy_NO, x_NI);
  if (b_O.param >= 0)
    contribute_column_sum(b_O, tp.has(Fault::BiasTwice) ? gy_nO * tp.size() : gy_nO);
  return tensor::product(gy_NO, w_OI.value);
}

struct Linear : Function<Linear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NI, const Weight* w,
                            const Weight* b, const std::optional<at::Tensor>& residual,
                            TensorParallel* tp) {
    ctx->save_for_backward({x_NI});
    keep(ctx, {{"w", w}, {"b", b}});
    keep(ctx, tp);
    ctx->saved_data["residual"] = residual.has_value();
    return row_product(x_NI, *w, *b, residual, *tp);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const at::Tensor x_NI = ctx->get_saved_variables()[0];
    const at::Tensor gx_NI =
        row_product_backward(gy[0], x_NI, kept(ctx, "w"), kept(ctx, "b"), kept_group(ctx));
    const bool residual = ctx->saved_data["residual"].toBool();
    return {gx_NI, {}, {}, residual ? gy[0] : at::Tensor(), {}};
  }
};

// Beside weights in fp32 LibTorch keeps statistics and the weights' gradients of bf16 rows in fp32.
at::Tensor wide(const Weight& weight) {
  return weight.value.to(tensor::wide_type(weight.value.scalar_type()));
}

// The normalised rows, their means and the inverses of their deviations.
std::tuple<at::Tensor, at::Tensor, at::Tensor> normalise(const at::Tensor& x_NC, const Weight& w_C,
                                                         const Weight& b_C) {
  return at::native_layer_norm(x_NC, {x_NC.size(-1)}, wide(w_C), wide(b_C), kNormEpsilon);
}

// The input's gradient; the weights' go on as contributions.
at::Tensor normalise_backward(const at::Tensor& gy_NC, const at::Tensor& x_NC,
                              const at::Tensor& mean, const at::Tensor& rstd, const Weight& w_C,
                              const Weight& b_C) {
  auto [gx_NC, gw_C, gb_C] = at::native_layer_norm_backward(
      gy_NC, x_NC, {x_NC.size(-1)}, mean, rstd, wide(w_C), wide(b_C), {true, true, true});
  contribute(w_C, gw_C);
  contribute(b_C, gb_C);
  return gx_NC;
}

struct LayerNorm : Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NC, const Weight* w,
                            const Weight* b) {
    auto [y_NC, mean, rstd] = normalise(x_NC, *w, *b);
    ctx->save_for_backward({x_NC, mean, rstd});
    keep(ctx, {{"w", w}, {"b", b}});
    return y_NC;
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    return {normalise_backward(gy[0], saved[0], saved[1], saved[2], kept(ctx, "w"), kept(ctx, "b")),
            {},
            {}};
  }
};

// What is kept of the input is the last that is saved: itself, or nothing.
struct LinearOfNorm : Function<LinearOfNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_nC, const Weight* norm_w,
                            const Weight* norm_b, const Weight* w, const Weight* b, Keep kept_input,
                            TensorParallel* tp, std::int64_t all_rows) {
    auto [input_nC, mean, rstd] = normalise(x_nC, *norm_w, *norm_b);
    const at::Tensor input_NC = tp->enter(input_nC, all_rows);
    variable_list saved = {x_nC, mean, rstd};
    if (kept_input == Keep::Input) saved.push_back(input_NC);
    ctx->save_for_backward(std::move(saved));
    keep(ctx, {{"norm_w", norm_w}, {"norm_b", norm_b}, {"w", w}, {"b", b}});
    keep(ctx, tp);
    return column_product(input_NC, *w, *b);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    const Weight &norm_w = kept(ctx, "norm_w"), &norm_b = kept(ctx, "norm_b");
    TensorParallel& tp = kept_group(ctx);
    const at::Tensor input_NC =
        saved.size() > 3
            ? saved[3]
            : tp.enter(std::get<0>(normalise(saved[0], norm_w, norm_b)), gy[0].size(0));
    const at::Tensor g_nC =
        column_product_backward(gy[0], input_NC, kept(ctx, "w"), kept(ctx, "b"), tp);
    const at::Tensor gx_nC = normalise_backward(g_nC, saved[0], saved[1], saved[2], norm_w, norm_b);
    return {gx_nC, {}, {}, {}, {}, {}, {}, {}};
  }
};

at::Tensor gelu(const at::Tensor& h_NF, const Weight& c_F) {
  at::Tensor y_NF = at::empty_like(h_NF);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, y_NF.scalar_type(), "bias_gelu", [&] {
    const std::int64_t columns = y_NF.size(1);
    const auto* h = h_NF.const_data_ptr<scalar_t>();
    const auto* bias = c_F.value.const_data_ptr<scalar_t>();
    auto* y = y_NF.data_ptr<scalar_t>();
    for_rows(y_NF, [&](std::int64_t first, std::size_t rows) {
      bias_gelu(h + first * columns, bias, y + first * columns, rows, size_of(columns));
    });
  });
  return y_NF;
}

// In place. The bias's gradient is made in the same pass as the input's, so it cannot wait for the
// weights' turn.
at::Tensor gelu_backward_(at::Tensor g_NF, const at::Tensor& h_NF, const Weight& c_F) {
  c_F.grads->write_now(
      c_F.param,
      [&](at::Tensor& dc_F, bool first) {
        AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, g_NF.scalar_type(), "bias_gelu_backward",
                                       [&] {
                                         const auto* h = h_NF.const_data_ptr<scalar_t>();
                                         const auto* bias = c_F.value.const_data_ptr<scalar_t>();
                                         auto* g = g_NF.data_ptr<scalar_t>();
                                         auto* dc = dc_F.data_ptr<Wide<scalar_t>>();
                                         for_columns(g_NF, [&](const Columns& range) {
                                           bias_gelu_backward(h, bias, g, dc, first, range);
                                         });
                                       });
      },
      /*last_piece=*/true);
  return g_NF;
}

// The product without its bias is what is kept; both passes add the bias on the fly.
struct LinearOfGelu : Function<LinearOfGelu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& h_NF, const Weight* c,
                            const Weight* w, const Weight* b,
                            const std::optional<at::Tensor>& residual, Keep kept_input,
                            TensorParallel* tp) {
    const at::Tensor input_NF = gelu(h_NF, *c);
    variable_list saved = {h_NF};
    if (kept_input == Keep::Input) saved.push_back(input_NF);
    ctx->save_for_backward(std::move(saved));
    keep(ctx, {{"c", c}, {"w", w}, {"b", b}});
    keep(ctx, tp);
    ctx->saved_data["residual"] = residual.has_value();
    return row_product(input_NF, *w, *b, residual, *tp);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    const Weight& c = kept(ctx, "c");
    const at::Tensor input_NF = saved.size() > 1 ? saved[1] : gelu(saved[0], c);
    at::Tensor g_NF =
        row_product_backward(gy[0], input_NF, kept(ctx, "w"), kept(ctx, "b"), kept_group(ctx));
    const bool residual = ctx->saved_data["residual"].toBool();
    return {gelu_backward_(std::move(g_NF), saved[0], c),
            {},
            {},
            {},
            residual ? gy[0] : at::Tensor(),
            {},
            {}};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O,
                  TensorParallel* tp) {
  return Linear::apply(x_NI, &w_OI, &b_O, std::nullopt, &or_alone(tp));
}

at::Tensor linear_residual(const at::Tensor& x_NI, const Weight& w_OI, const Weight& b_O,
                           const at::Tensor& residual_nO, TensorParallel* tp) {
  return Linear::apply(x_NI, &w_OI, &b_O, residual_nO, &or_alone(tp));
}

at::Tensor linear_of_norm(const at::Tensor& x_nC, const Weight& norm_w_C, const Weight& norm_b_C,
                          const Weight& w_OC, const Weight& b_O, Keep keep, TensorParallel* tp,
                          std::int64_t all_rows) {
  return LinearOfNorm::apply(x_nC, &norm_w_C, &norm_b_C, &w_OC, &b_O, keep, &or_alone(tp),
                             all_rows);
}

at::Tensor linear_of_gelu(const at::Tensor& h_NF, const Weight& c_F, const Weight& w_OF,
                          const Weight& b_O, const at::Tensor& residual_nO, Keep keep,
                          TensorParallel* tp) {
  const auto residual = residual_nO.defined() ? std::optional(residual_nO) : std::nullopt;
  return LinearOfGelu::apply(h_NF, &c_F, &w_OF, &b_O, residual, keep, &or_alone(tp));
}

at::Tensor layer_norm(const at::Tensor& x_NC, const Weight& w_C, const Weight& b_C) {
  return LayerNorm::apply(x_NC, &w_C, &b_C);
}

}  // namespace tutti::parallel
