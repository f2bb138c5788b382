// One graph per layer: forward detaches between layers, backward chains them by hand.
#include "parallel/stage.h"

#include "core/error.h"

namespace tutti::parallel {

at::Tensor Stage::forward(int microbatch, const MicroBatch& batch, const at::Tensor& input) {
  const bool training = at::GradMode::is_enabled();
  std::vector<Activation> activations;
  at::Tensor x = input;
  for (const auto& layer : layers_) {
    const core::TraceScope scope(trace_, "compute", "forward " + layer->name());
    if (x.defined() && training) x = x.detach().requires_grad_();
    const at::Tensor y = layer->forward(x, batch);
    if (training) activations.push_back({x, y});
    x = y;
  }
  if (training) kept_[microbatch] = std::move(activations);
  return x.detach();
}

at::Tensor Stage::backward(int microbatch, at::Tensor grad) {
  const auto kept = kept_.find(microbatch);
  TUTTI_CHECK(kept != kept_.end(), "backward of micro-batch {} before its forward", microbatch);
  std::vector<Activation> activations = std::move(kept->second);
  kept_.erase(kept);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const core::TraceScope scope(trace_, "compute", "backward " + layers_[i]->name());
    Activation activation = std::move(activations[i]);
    activations.pop_back();
    if (grad.defined()) {
      torch::autograd::backward({activation.output}, {grad});
    } else {
      torch::autograd::backward({activation.output});
    }
    grad = activation.input.defined() ? activation.input.grad() : at::Tensor();
  }
  return grad;
}

}  // namespace tutti::parallel
