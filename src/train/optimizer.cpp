// Updates piece by piece, the elements of each on all threads.
#include "train/optimizer.h"

#include <cmath>

#include "tensor/zero_pages.h"
#include "train/update_kernels.h"

namespace tutti::train {
namespace {

/// Flat zeros for every piece, each from a multiple of 64 bytes, all in one range of fresh pages.
std::vector<at::Tensor> zeros_like(const std::vector<parallel::ShardView>& pieces) {
  std::vector<at::Tensor> zeros;
  if (pieces.empty()) return zeros;
  const at::ScalarType type = pieces.front().value.scalar_type();
  const auto align = static_cast<std::int64_t>(64 / c10::elementSize(type));
  const auto room = [&](const parallel::ShardView& piece) {
    return (piece.slice.count + align - 1) / align * align;
  };
  std::int64_t elements = 0;
  for (const parallel::ShardView& piece : pieces) elements += room(piece);
  const at::Tensor all = tensor::zero_pages(elements, type);
  std::int64_t offset = 0;
  for (const parallel::ShardView& piece : pieces) {
    zeros.push_back(all.narrow(0, offset, piece.slice.count));
    offset += room(piece);
  }
  return zeros;
}

// update(range of elements): each is one thread's, so bits do not depend on their number.
template <class T, class Update>
void on_threads(const UpdateRange<T>& all, Update update) {
  constexpr std::int64_t kGrain = 1 << 15;  // some ten microseconds
  at::parallel_for(
      0, static_cast<std::int64_t>(all.count), kGrain, [&](std::int64_t begin, std::int64_t end) {
        update(UpdateRange<T>{.value = all.value + begin,
                              .grad = all.grad + begin,
                              .first = all.first + begin,
                              .second = all.second == nullptr ? nullptr : all.second + begin,
                              .count = static_cast<std::size_t>(end - begin)});
      });
}

}  // namespace

std::vector<std::string> optimizer_state_names(const OptimOptions& options) {
  if (options.kind == "sgd") return {"momentum"};
  return {"exp_avg", "exp_avg_sq"};
}

Optimizer::Optimizer(const spec::ModelSpec& spec, parallel::Replica& replica,
                     const OptimOptions& options)
    : spec_(spec), replica_(replica), options_(options), names_(optimizer_state_names(options)) {
  for (std::size_t which = 0; which < names_.size(); ++which)
    states_.push_back(zeros_like(replica.updated()));
}

void Optimizer::step(double lr, double grad_scale) {
  const at::NoGradGuard no_grad;
  ++steps_;
  const auto& pieces = replica_.updated();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    AT_DISPATCH_FLOATING_TYPES(pieces[i].value.scalar_type(), "optimizer",
                               [&] { update<scalar_t>(pieces[i], i, lr, grad_scale); });
  }
}

template <class T>
void Optimizer::update(const parallel::ShardView& piece, std::size_t index, double lr,
                       double grad_scale) {
  const double weight_decay = spec_.params[piece.param].decay ? options_.weight_decay : 0.0;
  UpdateRange<T> range{.value = piece.value.data_ptr<T>(),
                       .grad = piece.grad.data_ptr<T>(),
                       .first = states_[0][index].data_ptr<T>(),
                       .second = nullptr,
                       .count = static_cast<std::size_t>(piece.slice.count)};
  if (options_.kind == "sgd") {
    const SgdRates rates = {.lr = lr,
                            .momentum = options_.betas[0],
                            .weight_decay = weight_decay,
                            .grad_scale = grad_scale};
    return on_threads(range, [&](const UpdateRange<T>& part) { sgd(part, rates); });
  }
  range.second = states_[1][index].data_ptr<T>();
  const AdamwRates rates = {
      .lr = lr,
      .beta1 = options_.betas[0],
      .beta2 = options_.betas[1],
      .eps = options_.eps,
      .weight_decay = weight_decay,
      .grad_scale = grad_scale,
      .correction1 = 1 - std::pow(options_.betas[0], static_cast<double>(steps_)),
      .correction2 = 1 - std::pow(options_.betas[1], static_cast<double>(steps_))};
  on_threads(range, [&](const UpdateRange<T>& part) { adamw(part, rates); });
}

}  // namespace tutti::train
