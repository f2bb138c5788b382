// GELU over tensors, rows shared out among the intra-op threads.
#include "model/gelu.h"

#include "model/gelu_kernel.h"

namespace tutti::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kGrain = 32768;  // elements worth a thread

struct Gelu : Function<Gelu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input) {
    const at::Tensor x = input.contiguous();
    ctx->save_for_backward({x});
    at::Tensor y = at::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gelu", [&] {
      const auto* from = x.const_data_ptr<scalar_t>();
      auto* to = y.data_ptr<scalar_t>();
      at::parallel_for(0, x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        gelu_forward(from + begin, to + begin, static_cast<std::size_t>(end - begin));
      });
    });
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor x = ctx->get_saved_variables()[0];
    const at::Tensor gy = grads[0].contiguous();
    at::Tensor gx = at::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gelu", [&] {
      const auto* from = x.const_data_ptr<scalar_t>();
      const auto* up = gy.const_data_ptr<scalar_t>();
      auto* to = gx.data_ptr<scalar_t>();
      at::parallel_for(0, x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        gelu_backward(from + begin, up + begin, to + begin, static_cast<std::size_t>(end - begin));
      });
    });
    return {gx};
  }
};

}  // namespace

at::Tensor tanh_gelu(const at::Tensor& x) { return Gelu::apply(x); }

}  // namespace tutti::model
