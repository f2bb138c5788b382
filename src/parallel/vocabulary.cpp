// Both ends of a model, where rows are tokens: look-up, and logits with their loss.
#include "parallel/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
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

// Logits of 124M: 51 MB at a time instead of 206 MB per 4 sequences.
constexpr std::int64_t kHeadRows = 256;

[[noreturn]] void throw_outside(std::int64_t token, std::int64_t vocab) {
  throw core::RunError(fmt::format(
      "Token {} is outside the vocabulary of {} tokens: the token file is damaged. Make "
      "it again with `tutti data prepare`.",
      token, vocab));
}

// Which row of this rank's table a token is, -1 for another rank's word.
std::int64_t own_row(std::int64_t token, mesh::FlatSlice words) {
  const std::int64_t row = token - words.first;
  return row >= 0 && row < words.count ? row : -1;
}

// A word's row gets its gradients in the order of the tokens, whatever the number of threads: these
// share out the columns.
void contribute_rows(const Weight& weight, const at::Tensor& tokens_N, const at::Tensor& gy_NC,
                     mesh::FlatSlice words) {
  weight.grads->push(weight.param, [=, gy_NC = gy_NC.contiguous()](at::Tensor& dw_vC, bool first) {
    if (first) dw_vC.zero_();
    const std::int64_t count = tokens_N.size(0);
    const std::int64_t columns = dw_vC.size(1);
    const auto* tokens = tokens_N.const_data_ptr<std::int64_t>();
    AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, gy_NC.scalar_type(), "contribute_rows", [&] {
      const auto* gy = gy_NC.const_data_ptr<scalar_t>();
      auto* dw = dw_vC.data_ptr<Wide<scalar_t>>();
      at::parallel_for(0, columns, grain(count), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t token = 0; token < count; ++token) {
          const std::int64_t row = own_row(tokens[token], words);
          if (row < 0) continue;
          for (std::int64_t c = begin; c < end; ++c) {
            dw[row * columns + c] += gy[token * columns + c];
          }
        }
      });
    });
  });
}

// Zeros for tokens that are other ranks' words.
at::Tensor look_up(const at::Tensor& tokens_N, const at::Tensor& wte_vC, mesh::FlatSlice words) {
  const std::int64_t columns = wte_vC.size(1);
  const at::Tensor x_NC = at::empty({tokens_N.size(0), columns}, wte_vC.options());
  const auto* tokens = tokens_N.const_data_ptr<std::int64_t>();
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x_NC.scalar_type(), "look_up", [&] {
    const auto* table = wte_vC.const_data_ptr<scalar_t>();
    auto* x = x_NC.data_ptr<scalar_t>();
    const auto copy = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        const std::int64_t row = own_row(tokens[token], words);
        if (row < 0) {
          std::fill_n(x + token * columns, columns, scalar_t{0});
        } else {
          std::copy_n(table + row * columns, columns, x + token * columns);
        }
      }
    };
    at::parallel_for(0, tokens_N.size(0), grain(columns), copy);
  });
  return x_NC;
}

// Every rank of a group sees the same tokens, so they fail together.
void check_words(const at::Tensor& tokens_N, std::int64_t lowest, std::int64_t words) {
  const auto* tokens = tokens_N.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < tokens_N.size(0); ++row) {
    if (tokens[row] < lowest || tokens[row] >= words) throw_outside(tokens[row], words);
  }
}

struct Embedding : Function<Embedding> {
  // Positions of this rank's rows.
  static at::Tensor positions(mesh::FlatSlice rows, std::int64_t sequence, std::int64_t first) {
    return at::arange(rows.first, rows.first + rows.count).remainder_(sequence).add_(first);
  }
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tokens_N, std::int64_t sequence,
                            std::int64_t first, const at::Tensor& wte_vC, const Weight* wte,
                            const Weight* wpe, const Vocabulary& vocabulary) {
    check_words(tokens_N, 0, vocabulary.words);
    TensorParallel& tp = or_alone(vocabulary.tp);
    const mesh::FlatSlice own = vocabulary.own();
    const at::Tensor positions_n = positions(tp.rows(tokens_N.size(0)), sequence, first);
    ctx->save_for_backward({tokens_N, positions_n});
    ctx->saved_data["words"] = std::vector<std::int64_t>{own.first, own.count};
    keep(ctx, {{"wte", wte}, {"wpe", wpe}});
    keep(ctx, &tp);
    at::Tensor x_nC = tp.leave(look_up(tokens_N, wte_vC, own));
    return x_nC.add_(wpe->value.index_select(0, positions_n));
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    const auto saved = ctx->get_saved_variables();
    const std::vector<std::int64_t> words = ctx->saved_data["words"].toIntVector();
    const at::Tensor gy_NC = kept_group(ctx).enter(gy[0], saved[0].size(0));
    contribute_rows(kept(ctx, "wte"), saved[0], gy_NC, {words[0], words[1]});
    const Weight& wpe = kept(ctx, "wpe");
    wpe.grads->push(wpe.param,
                    [gy_nC = gy[0], positions_n = saved[1]](at::Tensor& dw_TC, bool first) {
                      if (first) dw_TC.zero_();
                      dw_TC.index_add_(0, positions_n, gy_nC.to(dw_TC.scalar_type()));
                    });
    return {{}, {}, {}, {}, {}, {}, {}};
  }
};

// A row's part of cross-entropy that lies on this rank: which of its columns is the target, -1 if
// none is.
std::int64_t own_column(std::int64_t target, mesh::FlatSlice words) {
  return target >= 0 ? own_row(target, words) : -1;
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

// The same for columns that are this rank's words: the largest logit, the sum of exponentials and
// the target's logit of a row come from all ranks. The loss is the same on each.
template <class T>
double split_loss_and_grad_(at::Tensor& logits_Nv, const at::Tensor& targets_N, double scale,
                            bool want_grad, mesh::FlatSlice words, TensorParallel& tp) {
  const std::int64_t rows = logits_Nv.size(0);
  const std::size_t columns = size_of(logits_Nv.size(1));
  auto* logits = logits_Nv.data_ptr<T>();
  const auto* targets = targets_N.const_data_ptr<std::int64_t>();
  const at::Tensor largest_N = at::empty({rows}, at::kDouble);
  const at::Tensor sums_2N = at::zeros({2, rows}, at::kDouble);  // exponentials; target's logit
  auto* largest_of = largest_N.data_ptr<double>();
  auto* sums = sums_2N.data_ptr<double>();
  auto* picked = sums + rows;
  const auto for_rows = [&](auto&& f) {
    at::parallel_for(0, rows, grain(logits_Nv.size(1)), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) f(row, logits + size_of(row) * columns);
    });
  };
  for_rows([&](std::int64_t row, T* x) {
    largest_of[row] = static_cast<double>(largest<T>(x, columns));
  });
  tp.reduce(largest_N, backend::ReduceOp::Max, "largest logits");
  for_rows([&](std::int64_t row, T* x) {
    const std::int64_t column = own_column(targets[row], words);
    const T most = static_cast<T>(largest_of[row]);
    if (column >= 0) picked[row] = static_cast<double>(x[column] - most);
    sums[row] = exponentials<T>(x, columns, most);
  });
  const bool own_only = tp.has(Fault::OwnLogits);
  if (!own_only) tp.reduce(sums_2N, backend::ReduceOp::Sum, "sums of exponentials");
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (targets[row] >= 0) loss += std::log(sums[row]) - picked[row];
  }
  if (!want_grad) return loss;
  for_rows([&](std::int64_t row, T* x) {
    if (targets[row] < 0) {
      std::fill_n(x, columns, T{0});
      return;
    }
    parallel::scale<T>(x, columns, scale / sums[row]);
    const std::int64_t column = own_column(targets[row], words);
    if (column >= 0) x[column] -= static_cast<T>(scale);
  });
  return loss;
}

struct HeadLoss : Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_nC, const at::Tensor& w_vC,
                            const at::Tensor& targets_N, const Weight* w, double scale,
                            bool training, const Vocabulary& vocabulary) {
    TensorParallel& tp = or_alone(vocabulary.tp);
    const mesh::FlatSlice own = vocabulary.own();
    const std::int64_t rows = targets_N.size(0);
    const at::Tensor x_NC = tp.enter(x_nC, rows);
    const at::ScalarType type = x_NC.scalar_type();
    const at::Tensor logits = at::empty({std::min(rows, kHeadRows), w_vC.size(0)},
                                        at::TensorOptions(tensor::wide_type(type)));
    at::Tensor gx_NC = training ? at::empty_like(x_NC) : at::Tensor();
    check_words(targets_N, INT64_MIN, vocabulary.words);
    double loss = 0;
    for (std::int64_t begin = 0; begin < rows; begin += kHeadRows) {
      const std::int64_t count = std::min(kHeadRows, rows - begin);
      const at::Tensor x = x_NC.narrow(0, begin, count);
      const at::Tensor targets = targets_N.narrow(0, begin, count);
      at::Tensor piece = logits.narrow(0, 0, count);
      tensor::product_into(piece, x, w_vC.t());
      loss += tp.alone() ? loss_and_grad_(piece, targets, scale, training)
                         : split_loss_and_grad(piece, targets, scale, training, own, tp);
      if (!training) continue;
      const at::Tensor dlogits = piece.to(type);
      tensor::product_into(gx_NC.narrow(0, begin, count), dlogits, w_vC);
      accumulate(*w, dlogits, x, begin == 0, begin + count == rows);
    }
    if (training) ctx->save_for_backward({tp.leave(gx_NC)});
    return at::scalar_tensor(loss, at::kDouble);
  }
  static variable_list backward(AutogradContext* ctx, variable_list) {
    return {ctx->get_saved_variables()[0], {}, {}, {}, {}, {}, {}};
  }

 private:
  static double split_loss_and_grad(at::Tensor& logits, const at::Tensor& targets, double scale,
                                    bool training, mesh::FlatSlice own, TensorParallel& tp) {
    return AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "cross_entropy", [&] {
      return split_loss_and_grad_<scalar_t>(logits, targets, scale, training, own, tp);
    });
  }
  // The pieces of one micro-batch are one contribution; they cannot be queued, since the logits are
  // about to go.
  static void accumulate(const Weight& w, const at::Tensor& dlogits, const at::Tensor& x,
                         bool first_piece, bool last_piece);
};

void HeadLoss::accumulate(const Weight& w, const at::Tensor& dlogits, const at::Tensor& x,
                          bool first_piece, bool last_piece) {
  const auto job = [&](at::Tensor& dw, bool first) {
    tensor::product_into(dw, dlogits.t(), x, /*add=*/!(first && first_piece));
  };
  w.grads->write_now(w.param, job, last_piece);
}

}  // namespace

mesh::FlatSlice Vocabulary::own() const {
  if (tp == nullptr) return {0, words};
  mesh::FlatSlice own = tp->share(words);
  if (tp->has(Fault::VocabEdge)) ++own.first;
  return own;
}

at::Tensor embedding(const at::Tensor& tokens_N, std::int64_t sequence, const Weight& wte_vC,
                     const Weight& wpe_TC, const Vocabulary& vocabulary, std::int64_t first) {
  return Embedding::apply(tokens_N, sequence, first, wte_vC.value, &wte_vC, &wpe_TC, vocabulary);
}

at::Tensor head_loss(const at::Tensor& x_nC, const at::Tensor& targets_N, const Weight& w_vC,
                     double scale, const Vocabulary& vocabulary) {
  // Inside forward autograd is always off, so the question is asked here.
  const bool training = at::GradMode::is_enabled() && x_nC.requires_grad();
  return HeadLoss::apply(x_nC, w_vC.value, targets_N, &w_vC, scale, training, vocabulary);
}

}  // namespace tutti::parallel
