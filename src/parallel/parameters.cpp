// Memory of parameters, publishing, and gathering layer by layer.
#include "parallel/parameters.h"

#include "tensor/products.h"

namespace tutti::parallel {

Parameters::Parameters(const std::vector<spec::Param>& params, const std::vector<Bucket>& buckets,
                       backend::Group dp, backend::Group gathers, const ParameterOptions& options,
                       core::Trace* trace)
    : params_(params),
      buckets_(buckets),
      dp_(std::move(dp)),
      gathers_(std::move(gathers)),
      options_(options),
      trace_(trace),
      states_(buckets.size()),
      values_(params.size()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    states_[b].label = "parameters of " + buckets_[b].label;
  if (options_.memory == ParamMemory::Shared && !allocate_shared())
    options_.memory = options_.without_sharing;
  if (options_.memory == ParamMemory::Sharded) allocate_sharded();
  if (options_.memory == ParamMemory::Own) {
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      states_[b].whole = dp_.allocate({buckets_[b].elements}, options_.type);
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const at::Tensor values = options_.update_all ? states_[b].whole : own_part(b);
    states_[b].masters =
        has_masters() ? dp_.allocate({values.numel()}, tensor::wide_type(options_.type)) : values;
  }
  make_views();
}

bool Parameters::has_masters() const { return tensor::wide_type(options_.type) != options_.type; }

// False, the same on every rank and from the first bucket on, where they share no memory.
bool Parameters::allocate_shared() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    states_[b].whole = dp_.allocate_shared({buckets_[b].elements}, options_.type, states_[b].label);
    if (!states_[b].whole.defined()) return false;
  }
  return true;
}

void Parameters::allocate_sharded() {
  plan_ = plan_gathers(options_.reads, buckets_, options_.window);
  std::vector<at::Tensor> places;
  for (const std::int64_t elements : plan_->slot_elements)
    places.push_back(gathers_.allocate({elements}, options_.type));
  held_.assign(places.size(), -1);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    states_[b].shard = dp_.allocate({buckets_[b].shard_counts[dp_.rank()]}, options_.type);
    states_[b].whole = places[plan_->slot_of_bucket[b]];
  }
}

void Parameters::make_views() {
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const BucketParam& place : buckets_[b].params) {
      const spec::Param& param = params_[place.param];
      values_[place.param] = states_[b]
                                 .whole.narrow(0, place.offset, param.elements())
                                 .view(param.shape)
                                 .detach()
                                 .requires_grad_();
    }
  }
}

at::Tensor Parameters::part_of(std::size_t b, const at::Tensor& whole) const {
  return whole.narrow(0, shard_begin(buckets_[b], dp_.rank()),
                      buckets_[b].shard_counts[dp_.rank()]);
}

// The values of this rank's part.
at::Tensor Parameters::own_part(std::size_t b) const {
  return plan_ ? states_[b].shard : part_of(b, states_[b].whole);
}

void Parameters::round_masters() {
  if (!has_masters()) return;
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    (options_.update_all ? states_[b].whole : own_part(b)).copy_(states_[b].masters);
  }
}

void Parameters::publish() {
  switch (options_.memory) {
    case ParamMemory::Shared:
      round_masters();
      dp_.barrier("publish parameters").wait();
      return;
    case ParamMemory::Sharded:
      round_masters();
      // Gathered again when a layer needs them. Nothing is under way: what was fetched ahead was
      // acquired too.
      held_.assign(held_.size(), -1);
      return;
    case ParamMemory::Own:
      // Who updates everything needs everybody's masters.
      if (options_.update_all) {
        gather_all(/*masters=*/true);
        round_masters();
      } else {
        round_masters();
        gather_all(/*masters=*/false);
      }
  }
}

void Parameters::publish_updated() { round_masters(); }

void Parameters::gather_all(bool masters) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const at::Tensor& whole = masters ? states_[b].masters : states_[b].whole;
    launch_gather(b, whole, part_of(b, whole));
  }
  for (State& state : states_) state.pending.wait();
}

void Parameters::launch_gather(std::size_t b, const at::Tensor& whole, const at::Tensor& part) {
  const at::NoGradGuard no_grad;
  State& state = states_[b];
  state.launched = core::now();
  state.pending = gathers_.all_gather(whole, part, buckets_[b].shard_counts, state.label);
}

// Starts what is missing of a layer's buckets.
void Parameters::fetch(int layer) {
  for (const int bucket : plan_->buckets_of_layer[layer]) {
    int& held = held_[plan_->slot_of_bucket[bucket]];
    if (held == bucket) continue;
    held = bucket;
    launch_gather(bucket, states_[bucket].whole, states_[bucket].shard);
  }
}

void Parameters::acquire(int layer, Direction direction) {
  if (!plan_) return;
  const core::Stopwatch watch;
  fetch(layer);
  for (const int bucket : plan_->buckets_of_layer[layer]) {
    State& state = states_[bucket];
    if (state.launched == core::Seconds{}) continue;
    state.pending.wait();
    if (trace_ != nullptr && trace_->on())
      trace_->add("comm", "gather " + state.label, state.launched, core::now());
    state.launched = {};
  }
  const int next = layer + (direction == Direction::Forward ? 1 : -1);
  if (next >= 0 && next < static_cast<int>(plan_->buckets_of_layer.size())) fetch(next);
  exposed_s_ += watch.elapsed().count();
}

}  // namespace tutti::parallel
