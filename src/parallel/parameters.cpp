// Memory of parameters, publishing, and gathering layer by layer.
#include "parallel/parameters.h"

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
  make_views();
}

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

at::Tensor Parameters::own_part(std::size_t b) const {
  if (plan_) return states_[b].shard;
  return states_[b].whole.narrow(0, shard_begin(buckets_[b], dp_.rank()),
                                 buckets_[b].shard_counts[dp_.rank()]);
}

void Parameters::publish() {
  switch (options_.memory) {
    case ParamMemory::Shared:
      dp_.barrier("publish parameters").wait();
      return;
    case ParamMemory::Sharded:
      // Gathered again when a layer needs them. Nothing is under way: what was fetched ahead was
      // acquired too.
      held_.assign(held_.size(), -1);
      return;
    case ParamMemory::Own:
      for (std::size_t b = 0; b < buckets_.size(); ++b) launch_gather(b);
      for (State& state : states_) state.pending.wait();
  }
}

void Parameters::launch_gather(std::size_t b) {
  const at::NoGradGuard no_grad;
  State& state = states_[b];
  state.launched = core::now();
  state.pending =
      gathers_.all_gather(state.whole, own_part(b), buckets_[b].shard_counts, state.label);
}

// Starts what is missing of a layer's buckets.
void Parameters::fetch(int layer) {
  for (const int bucket : plan_->buckets_of_layer[layer]) {
    int& held = held_[plan_->slot_of_bucket[bucket]];
    if (held == bucket) continue;
    held = bucket;
    launch_gather(bucket);
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
