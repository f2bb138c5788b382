// The sampling loop.
#include "model/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "core/rng.h"
#include "model/attention.h"

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
  const bool greedy = options.temperature <= 0;
  const std::size_t top = greedy ? 1 : static_cast<std::size_t>(options.top_k);
  const std::size_t keep = top > 0 ? std::min(top, order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(),
                    above);
  if (greedy) return order.front();
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

/// The model's opinion on the token behind a text that grows by one token at a time.
class NextToken {
 public:
  NextToken(const spec::ModelSpec& spec, const WeightOf& weight, bool cached)
      : spec_(spec), weight_(weight), whole_(without_head(gpt_layers(spec, weight, {}))) {
    if (!cached) return;
    const spec::ModelOptions& model = spec.model;
    cache_.emplace(model.layers, model.kv_heads, model.hidden / model.heads, model.context,
                   weight(0).value.scalar_type());
    next_ = without_head(gpt_layers(spec, weight, {.cache = &*cache_}));
  }

  /// Logits [V]. `tokens` is the text of the last call and one token more.
  at::Tensor logits(std::span<const std::int64_t> tokens) {
    const auto context = static_cast<std::size_t>(spec_.model.context);
    if (!cache_ || tokens.size() > context)
      return forward(whole_, tokens.last(std::min(tokens.size(), context)));
    const auto seen = static_cast<std::size_t>(cache_->tokens());
    const at::Tensor logits_V = forward(next_, tokens.subspan(seen));
    cache_->advance(static_cast<std::int64_t>(tokens.size() - seen));
    return logits_V;
  }

 private:
  using Layers = std::vector<std::unique_ptr<parallel::Layer>>;

  // The head gives a loss; here the logits are wanted.
  static Layers without_head(Layers layers) {
    layers.pop_back();
    return layers;
  }

  at::Tensor forward(const Layers& layers, std::span<const std::int64_t> tokens) const {
    parallel::MicroBatch batch;
    batch.tokens_N = at::tensor(at::IntArrayRef(tokens.data(), tokens.size()), at::kLong);
    batch.sequence = static_cast<std::int64_t>(tokens.size());
    at::Tensor x_NC;
    for (const auto& layer : layers) x_NC = layer->forward(x_NC, batch);
    return gpt_logits(spec_, weight_, x_NC.narrow(0, batch.sequence - 1, 1)).squeeze(0);
  }

  const spec::ModelSpec& spec_;
  const WeightOf& weight_;
  Layers whole_, next_;
  std::optional<KvCache> cache_;
};

}  // namespace

void sample(const spec::ModelSpec& spec, const WeightOf& weight, std::vector<std::int64_t> tokens,
            const SampleOptions& options, const std::function<void(std::int64_t)>& emit) {
  if (tokens.empty())
    throw std::invalid_argument("a prompt of no tokens: there is nothing to go on from");
  const at::NoGradGuard no_grad;
  NextToken next(spec, weight, options.cache);
  const core::PhiloxKey key = core::philox_key(options.seed, "sample");
  for (int i = 0; i < options.tokens; ++i) {
    const double u = core::uniform({static_cast<std::uint32_t>(i), 0, 0, 0}, key);
    tokens.push_back(draw(next.logits(tokens), options, u));
    emit(tokens.back());
  }
}

}  // namespace tutti::model
