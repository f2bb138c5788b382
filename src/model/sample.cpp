// The sampling loop.
#include "model/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rng.h"

namespace tutti::model {
namespace {

// Draws from softmax(logits / temperature) over the top_k largest, in fp64 and by index order: no
// dependence on threads.
std::int64_t draw(const at::Tensor& logits_V, const SampleOptions& options, double u) {
  const at::Tensor wide_V = logits_V.to(at::kDouble).contiguous();
  const std::span<const double> logits(wide_V.data_ptr<double>(),
                                       static_cast<std::size_t>(wide_V.numel()));
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto above = [&](std::int64_t a, std::int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const std::size_t keep =
      options.top_k > 0 ? std::min<std::size_t>(options.top_k, order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(),
                    above);
  if (options.temperature <= 0) return order.front();
  std::vector<double> weights(keep);
  for (std::size_t i = 0; i < keep; ++i)
    weights[i] = std::exp((logits[order[i]] - logits[order[0]]) / options.temperature);
  double left = u * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < keep; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[keep - 1];
}

}  // namespace

void sample(const spec::ModelSpec& spec, const WeightOf& weight, std::vector<std::int64_t> tokens,
            const SampleOptions& options, const std::function<void(std::int64_t)>& emit) {
  const at::NoGradGuard no_grad;
  auto layers = gpt_layers(spec, weight, {});
  layers.pop_back();  // the head gives a loss; here the logits are wanted
  const core::PhiloxKey key = core::philox_key(options.seed, "sample");
  for (int i = 0; i < options.tokens; ++i) {
    const auto seen = std::min<std::size_t>(tokens.size(), spec.model.context);
    const std::vector<std::int64_t> window(tokens.end() - static_cast<std::ptrdiff_t>(seen),
                                           tokens.end());
    parallel::MicroBatch batch;
    batch.tokens_N = at::tensor(window, at::kLong);
    batch.sequence = static_cast<std::int64_t>(seen);
    at::Tensor x_NC;
    for (const auto& layer : layers) x_NC = layer->forward(x_NC, batch);
    const at::Tensor logits_V =
        gpt_logits(spec, weight, x_NC.narrow(0, batch.sequence - 1, 1)).squeeze(0);
    const double u = core::uniform({static_cast<std::uint32_t>(i), 0, 0, 0}, key);
    tokens.push_back(draw(logits_V, options, u));
    emit(tokens.back());
  }
}

}  // namespace tutti::model
