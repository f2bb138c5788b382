// What tests of layers need: leaves, somewhere for gradients to arrive, a comparison in fp64.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "parallel/weight_grads.h"
#include "tensor/products.h"
#include "tensor/torch.h"

namespace tutti::parallel::testing {

/// Gradients full of rubbish until a first contribution overwrites them, as in a bucket.
class Slots final : public GradSlots {
 public:
  Weight weight(int param, const at::Tensor& value) {
    grads_[param] = at::full(value.sizes(), 1e3, tensor::wide_type(value.scalar_type()));
    return {value.detach().clone().requires_grad_(), param, &weight_grads};
  }
  const at::Tensor& slot(int param) override { return grads_.at(param); }
  bool first(int param) override { return arrivals[param] == 0; }
  void arrived(int param) override { ++arrivals[param]; }

  std::map<int, int> arrivals;
  WeightGrads weight_grads{this};

 private:
  std::map<int, at::Tensor> grads_;
};

inline at::Tensor leaf(at::IntArrayRef shape) {
  return at::randn(shape, at::kDouble).requires_grad_();
}

/// ||found - expected|| / ||expected||, in fp64.
inline double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  return ((found.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

inline void expect_close(const at::Tensor& found, const at::Tensor& expected) {
  SCOPED_TRACE(::testing::Message() << expected.sizes());
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-11);
}

}  // namespace tutti::parallel::testing
