// Readiness, reduction and publishing of one data-parallel copy.
#include "parallel/replica.h"

#include <numeric>

namespace tutti::parallel {
namespace {

using backend::ReduceOp;

// Everything, as if one rank owned it: what a ZeRO 0 replica updates.
std::vector<OwnedSlice> all_slices(const std::vector<spec::Param>& params,
                                   const std::vector<Bucket>& buckets) {
  std::vector<OwnedSlice> all;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const BucketParam& place : buckets[b].params) {
      all.push_back(
          {static_cast<int>(b), place.offset, place.param, {0, params[place.param].elements()}});
    }
  }
  return all;
}

// What lies between parameters is reduced with them and counts in their norm. The rest needs no
// zeros: a step's first contribution overwrites, and touching it all would cost a second at start.
void zero_padding(const Bucket& bucket, const std::vector<spec::Param>& params,
                  const at::Tensor& grads) {
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    const std::int64_t begin = bucket.params[i].offset + params[bucket.params[i].param].elements();
    const std::int64_t end =
        i + 1 < bucket.params.size() ? bucket.params[i + 1].offset : bucket.elements;
    grads.narrow(0, begin, end - begin).zero_();
  }
}

std::int64_t shard_begin(const Bucket& bucket, int rank) {
  return std::accumulate(bucket.shard_counts.begin(), bucket.shard_counts.begin() + rank,
                         std::int64_t{0});
}

}  // namespace

Replica::Replica(const spec::ModelSpec& spec, backend::Group dp, const ReplicaOptions& options,
                 core::Trace* trace)
    : dp_(std::move(dp)), options_(options), trace_(trace) {
  if (dp_.size() == 1) options_.fault = Fault::None;
  buckets_ = plan_buckets(
      spec.params, {.ranks = dp_.size(),
                    .element_bytes = static_cast<std::int64_t>(c10::elementSize(options.type)),
                    .bucket_bytes = options.bucket_bytes});
  for (std::size_t param = 0; param < spec.params.size(); ++param) {
    uses_.push_back(spec.params[param].uses);
    const std::int64_t blocks = num_blocks({spec.params[param]});
    param_of_block_.insert(param_of_block_.end(), blocks, static_cast<int>(param));
  }
  block_squares_.resize(param_of_block_.size());
  block_not_finite_.resize(param_of_block_.size());
  allocate(spec);
  owned_ = views(owned_slices(spec.params, buckets_, dp_.rank()));
  updated_ = options_.zero == 0 ? views(all_slices(spec.params, buckets_)) : owned_;
}

void Replica::allocate(const spec::ModelSpec& spec) {
  const at::NoGradGuard no_grad;
  const std::size_t count = spec.params.size();
  shared_values_ = wants_shared_pages(options_, dp_.size());
  states_.resize(buckets_.size());
  bucket_of_.resize(count);
  values_.resize(count);
  grads_.resize(count);
  contributions_.resize(count);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    BucketState& state = states_[b];
    state.values = allocate_values(bucket);
    state.grads = dp_.allocate({bucket.elements}, options_.type);
    zero_padding(bucket, spec.params, state.grads);
    state.stats.block_starts = bucket.block_starts;
    state.publish_label = "parameters of " + bucket.label;
    for (const BucketParam& place : bucket.params) {
      const spec::Param& param = spec.params[place.param];
      const auto view = [&](const at::Tensor& flat) {
        return flat.narrow(0, place.offset, param.elements()).view(param.shape).detach();
      };
      bucket_of_[place.param] = static_cast<int>(b);
      values_[place.param] = view(state.values).requires_grad_();
      grads_[place.param] = view(state.grads);
    }
  }
}

at::Tensor Replica::allocate_values(const Bucket& bucket) {
  if (shared_values_) {
    const at::Tensor shared =
        dp_.allocate_shared({bucket.elements}, options_.type, "parameters of " + bucket.label);
    if (shared.defined()) return shared;
    shared_values_ = false;  // the same answer on every rank, and from the first bucket on
  }
  return dp_.allocate({bucket.elements}, options_.type);
}

std::vector<ShardView> Replica::views(const std::vector<OwnedSlice>& slices) const {
  std::vector<ShardView> result;
  for (const OwnedSlice& owned : slices) {
    const BucketState& state = states_[owned.bucket];
    result.push_back({owned.param, owned.slice,
                      state.values.narrow(0, owned.offset, owned.slice.count),
                      state.grads.narrow(0, owned.offset, owned.slice.count)});
  }
  return result;
}

void Replica::begin_step(int microbatches) {
  microbatches_ = microbatches;
  next_bucket_ = 0;
  exposed_s_ = 0;
  std::fill(contributions_.begin(), contributions_.end(), 0);
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    states_[b].missing = static_cast<int>(buckets_[b].params.size());
}

const at::Tensor& Replica::slot(int param) {
  const bool second_use = uses_[param] > 1 && contributions_[param] % 2 == 1;
  if (options_.fault != Fault::LoseTie || !second_use) return grads_[param];
  dropped_ = at::zeros_like(grads_[param]);
  return dropped_;
}

void Replica::arrived(int param) {
  if (++contributions_[param] == microbatches_ * uses_[param]) --states_[bucket_of_[param]].missing;
  if (!options_.overlap) return;
  launch_ready();
  dp_.progress();
}

void Replica::launch_ready() {
  while (next_bucket_ < buckets_.size() && states_[next_bucket_].missing == 0)
    launch(next_bucket_++);
}

void Replica::launch(std::size_t b) {
  const Bucket& bucket = buckets_[b];
  BucketState& state = states_[b];
  state.launched = core::now();
  const bool skip = options_.fault == Fault::SkipBucket && b + 1 == buckets_.size();
  if (options_.zero == 0) {
    if (!skip)
      state.pending = dp_.all_reduce(state.grads, ReduceOp::Sum, bucket.label, &state.stats);
    return;
  }
  const at::Tensor shard =
      state.grads.narrow(0, shard_begin(bucket, dp_.rank()), bucket.shard_counts[dp_.rank()]);
  if (!skip) {
    state.pending = dp_.reduce_scatter(shard, state.grads, bucket.shard_counts, ReduceOp::Sum,
                                       bucket.label, &state.stats);
  }
}

void Replica::wait_grads() {
  const core::Stopwatch watch;
  // A parameter that took no part in this step on this rank (or on all) still has a gradient: zero.
  for (std::size_t param = 0; param < contributions_.size(); ++param) {
    if (contributions_[param] == 0) grads_[param].zero_();
  }
  while (next_bucket_ < buckets_.size()) launch(next_bucket_++);
  std::fill(block_squares_.begin(), block_squares_.end(), 0.0);
  std::fill(block_not_finite_.begin(), block_not_finite_.end(), 0);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    states_[b].pending.wait();
    if (trace_ != nullptr && trace_->on())
      trace_->add("comm", "reduce " + buckets_[b].label, states_[b].launched, core::now());
    collect_stats(b);
  }
  if (options_.fault == Fault::SwapShard && dp_.rank() == 0 && !owned_.empty()) {
    owned_.front().grad.copy_(owned_.front().grad.flip({0}));
  }
  exposed_s_ += watch.elapsed().count();
}

void Replica::collect_stats(std::size_t b) {
  const backend::ReduceStats& stats = states_[b].stats;
  for (std::size_t i = 0; i < stats.squares.size(); ++i) {
    const int block = buckets_[b].blocks[stats.first_block + i];
    block_squares_[block] = stats.squares[i];
    block_not_finite_[block] = static_cast<std::int64_t>(stats.not_finite[i]);
  }
}

void Replica::publish_params() {
  if (options_.zero == 0) return;  // every replica has updated everything
  const core::Stopwatch watch;
  const core::TraceScope scope(trace_, "comm", "publish parameters");
  gather();
  exposed_s_ += watch.elapsed().count();
}

void Replica::publish_owned() { gather(); }

void Replica::gather() {
  if (shared_values_) {
    dp_.barrier("publish parameters").wait();
    return;
  }
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    BucketState& state = states_[b];
    const at::Tensor shard =
        state.values.narrow(0, shard_begin(bucket, dp_.rank()), bucket.shard_counts[dp_.rank()]);
    state.pending = dp_.all_gather(state.values, shard, bucket.shard_counts, state.publish_label);
  }
  for (BucketState& state : states_) state.pending.wait();
}

}  // namespace tutti::parallel
