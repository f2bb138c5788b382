// GELU against LibTorch's own, values and gradients.
#include "model/gelu.h"

#include <gtest/gtest.h>

namespace tutti::model {
namespace {

TEST(Gelu, AgreesWithLibTorchFromDeepNegativeToLargePositive) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::linspace(-30, 30, 100003, at::kDouble).to(type);
    const at::Tensor expected = at::gelu(x.to(at::kDouble), "tanh");
    const at::Tensor error =
        (tanh_gelu(x).to(at::kDouble) - expected).abs() / x.to(at::kDouble).abs().clamp_min(1e-3);
    EXPECT_LT(error.max().item<double>(), type == at::kFloat ? 4e-7 : 1e-14) << c10::toString(type);
  }
}

TEST(Gelu, HasTheGradientOfLibTorchs) {
  const at::Tensor x = at::linspace(-12, 12, 4099, at::kDouble);
  const at::Tensor ours = x.clone().requires_grad_();
  const at::Tensor theirs = x.clone().requires_grad_();
  const at::Tensor up = at::linspace(0.5, 2, 4099, at::kDouble);
  torch::autograd::backward({tanh_gelu(ours)}, {up});
  torch::autograd::backward({at::gelu(theirs, "tanh")}, {up});
  EXPECT_LT((ours.grad() - theirs.grad()).abs().max().item<double>(), 1e-13);

  const at::Tensor single = x.to(at::kFloat).requires_grad_();
  torch::autograd::backward({tanh_gelu(single)}, {up.to(at::kFloat)});
  EXPECT_LT((single.grad().to(at::kDouble) - theirs.grad()).abs().max().item<double>(), 4e-6);
}

TEST(Gelu, TakesNothingAndInfinity) {
  EXPECT_EQ(tanh_gelu(at::empty({0}, at::kFloat)).numel(), 0);
  const at::Tensor y = tanh_gelu(at::tensor({INFINITY, 1e30, 100.0}, at::kFloat));
  EXPECT_TRUE(std::isinf(y[0].item<float>()));
  EXPECT_EQ(y[2].item<float>(), 100.0F);
}

}  // namespace
}  // namespace tutti::model
