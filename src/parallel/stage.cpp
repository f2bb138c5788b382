// One graph per layer: forward detaches between layers, backward chains them by hand.
#include "parallel/stage.h"

#include "core/error.h"

namespace tutti::parallel {

at::Tensor Stage::forward(int microbatch, const MicroBatch& batch, const at::Tensor& input) {
  const bool training = at::GradMode::is_enabled();
  Kept kept{.batch = batch, .activations = {}};
  at::Tensor x = input;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto& layer = layers_[i];
    if (before_layer_) before_layer_(static_cast<int>(i), Direction::Forward);
    const core::TraceScope scope(trace_, "compute", "forward " + layer->name());
    const bool again = recompute_ && layer->repeats();
    if (x.defined() && training) x = x.detach().requires_grad_();
    // Also where its graph is dropped at once: a layer takes gradients for the sign of training, in
    // which it drops out.
    const at::Tensor y = layer->forward(x, batch);
    if (training) kept.activations.push_back({x, again ? at::Tensor() : y});
    x = again ? y.detach() : y;
  }
  if (training) kept_[microbatch] = std::move(kept);
  return x.detach();
}

at::Tensor Stage::backward(int microbatch, at::Tensor grad) {
  const auto found = kept_.find(microbatch);
  TUTTI_CHECK(found != kept_.end(), "backward of micro-batch {} before its forward", microbatch);
  Kept kept = std::move(found->second);
  kept_.erase(found);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (before_layer_) before_layer_(static_cast<int>(i), Direction::Backward);
    Activation activation = std::move(kept.activations[i]);
    kept.activations.pop_back();
    if (!activation.output.defined()) {
      const core::TraceScope scope(trace_, "compute", "again " + layers_[i]->name());
      activation.output = layers_[i]->forward(activation.input, kept.batch);
    }
    const core::TraceScope scope(trace_, "compute", "backward " + layers_[i]->name());
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
