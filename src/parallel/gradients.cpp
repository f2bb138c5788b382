// Readiness and reduction of gradients, bucket by bucket.
#include "parallel/gradients.h"

#include <algorithm>
#include <bit>

namespace tutti::parallel {
namespace {

using backend::ReduceOp;

// Sharded: buckets whose memory may wait for their reduction while backward fills the next one.
constexpr std::size_t kUnderWay = 2;

// What lies between parameters is reduced with them and counts in their norm. The rest needs no
// zeros: the first contribution overwrites, and touching it all would cost a second at start.
void zero_padding(const Bucket& bucket, const std::vector<spec::Param>& params,
                  const at::Tensor& grads) {
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    const std::int64_t begin = bucket.params[i].offset + params[bucket.params[i].param].elements();
    const std::int64_t end =
        i + 1 < bucket.params.size() ? bucket.params[i + 1].offset : bucket.elements;
    grads.narrow(0, begin, end - begin).zero_();
  }
}

template <class T>
double sum_of_squares(const T* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

}  // namespace

Gradients::Gradients(const std::vector<spec::Param>& params, const std::vector<Bucket>& buckets,
                     GradientGroups groups, TensorParallel& tp, const GradientOptions& options,
                     core::Trace* trace)
    : params_(params),
      buckets_(buckets),
      shards_(std::move(groups.shards)),
      copies_(std::move(groups.copies)),
      tp_(tp),
      options_(options),
      trace_(trace),
      states_(buckets.size()),
      bucket_of_(params.size()),
      grads_(params.size()),
      contributions_(params.size()) {
  const auto blocks = static_cast<std::size_t>(num_blocks(params));
  block_squares_.resize(blocks);
  block_not_finite_.resize(blocks);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    State& state = states_[b];
    state.stats.block_starts = bucket.block_starts;
    if (copies_.size() > 1) expect_copies(b);
    for (const BucketParam& place : bucket.params) bucket_of_[place.param] = static_cast<int>(b);
    if (sharded()) {
      state.reduced = shards_.allocate({bucket.shard_counts[shards_.rank()]}, options_.type);
      continue;
    }
    open(b);
    state.reduced = options_.memory == GradMemory::Kept ? own_part(b) : state.whole;
  }
}

void Gradients::expect_copies(std::size_t b) {
  const Bucket& bucket = buckets_[b];
  const std::int64_t begin = shard_begin(bucket, shards_.rank());
  const std::int64_t end = begin + bucket.shard_counts[shards_.rank()];
  const auto first = std::ranges::lower_bound(bucket.block_starts, begin);
  states_[b].first_own_block = static_cast<std::size_t>(first - bucket.block_starts.begin());
  for (auto start = first; start != bucket.block_starts.end() && *start < end; ++start)
    states_[b].own_block_starts.push_back(*start - begin);
  states_[b].copy_stats.block_starts = states_[b].own_block_starts;
}

at::Tensor Gradients::own_part(std::size_t b) const {
  const Bucket& bucket = buckets_[b];
  return states_[b].whole.narrow(0, shard_begin(bucket, shards_.rank()),
                                 bucket.shard_counts[shards_.rank()]);
}

// Memory for a bucket's contributions.
void Gradients::open(std::size_t b) {
  const at::NoGradGuard no_grad;
  const Bucket& bucket = buckets_[b];
  State& state = states_[b];
  state.whole = shards_.allocate({bucket.elements}, options_.type);
  zero_padding(bucket, params_, state.whole);
  for (const BucketParam& place : bucket.params) {
    const spec::Param& param = params_[place.param];
    grads_[place.param] =
        state.whole.narrow(0, place.offset, param.elements()).view(param.shape).detach();
  }
}

void Gradients::begin_step(int microbatches) {
  microbatches_ = microbatches;
  microbatch_ = 0;
  exposed_s_ = 0;
  std::fill(block_squares_.begin(), block_squares_.end(), 0.0);
  std::fill(block_not_finite_.begin(), block_not_finite_.end(), 0);
  expect_contributions();
}

void Gradients::expect_contributions() {
  next_bucket_ = 0;
  std::fill(contributions_.begin(), contributions_.end(), 0);
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    states_[b].missing = static_cast<int>(buckets_[b].params.size());
}

const at::Tensor& Gradients::slot(int param) {
  const auto bucket = static_cast<std::size_t>(bucket_of_[param]);
  if (!states_[bucket].whole.defined()) open(bucket);
  const bool second_use = params_[param].uses > 1 && contributions_[param] % 2 == 1;
  if (options_.fault != Fault::LoseTie || !second_use) return grads_[param];
  dropped_ = at::zeros_like(grads_[param]);
  return dropped_;
}

void Gradients::arrived(int param) {
  const int expected = params_[param].uses * (sharded() ? 1 : microbatches_);
  if (++contributions_[param] == expected) --states_[bucket_of_[param]].missing;
  if (!options_.overlap) return;
  launch_ready();
  shards_.progress();
  if (sharded()) {
    const core::Stopwatch watch;
    finish_until(kUnderWay);
    exposed_s_ += watch.elapsed().count();
  } else if (copies_.size() > 1) {
    finish_until(under_way_.size());  // what is there goes on to the copies
  }
}

void Gradients::launch_ready() {
  while (next_bucket_ < buckets_.size() && states_[next_bucket_].missing == 0)
    launch(next_bucket_++);
}

// A parameter that took no part on this rank (or on all) still has a gradient: zero.
void Gradients::launch_rest() {
  for (std::size_t param = 0; param < contributions_.size(); ++param) {
    if (contributions_[param] == 0) slot(static_cast<int>(param)).zero_();
  }
  while (next_bucket_ < buckets_.size()) {
    launch(next_bucket_++);
    if (sharded()) finish_until(kUnderWay);
  }
}

void Gradients::launch(std::size_t b) {
  const Bucket& bucket = buckets_[b];
  State& state = states_[b];
  state.launched = core::now();
  if (bucket.partial_over_tp && !tp_.has(Fault::SkipPartial))
    tp_.reduce(state.whole, ReduceOp::Sum, bucket.label);
  under_way_.push_back(b);
  const bool skip = options_.fault == Fault::SkipBucket && b + 1 == buckets_.size();
  if (options_.memory == GradMemory::Replicated) {
    if (!skip)
      state.pending = shards_.all_reduce(state.whole, options_.reduce, bucket.label, &state.stats);
    return;
  }
  at::Tensor to = state.reduced;
  if (sharded() && microbatch_ > 0) {
    state.arriving = shards_.allocate({bucket.shard_counts[shards_.rank()]}, options_.type);
    to = state.arriving;
  }
  if (skip) {
    if (sharded()) to.copy_(own_part(b));
    return;
  }
  state.pending = shards_.reduce_scatter(to, state.whole, bucket.shard_counts, options_.reduce,
                                         bucket.label, &state.stats);
}

void Gradients::finish_until(std::size_t under_way) {
  while (!under_way_.empty() &&
         (under_way_.size() > under_way || states_[under_way_.front()].pending.done())) {
    finish(under_way_.front());
    under_way_.pop_front();
  }
}

void Gradients::finish(std::size_t b) {
  State& state = states_[b];
  state.pending.wait();
  if (trace_ != nullptr && trace_->on())
    trace_->add("comm", "reduce " + buckets_[b].label, state.launched, core::now());
  collect_stats(b);
  if (!sharded()) {
    reduce_over_copies(b);
    return;
  }
  if (microbatch_ > 0) add_up(b);
  state.whole.reset();
  for (const BucketParam& place : buckets_[b].params) grads_[place.param].reset();
  if (microbatch_ + 1 == microbatches_) reduce_over_copies(b);
}

// Once per step, of the sum over all micro-batches: the bytes between shard groups are few.
void Gradients::reduce_over_copies(std::size_t b) {
  State& state = states_[b];
  const bool skip = options_.fault == Fault::SkipCopies && b + 1 == buckets_.size();
  if (copies_.size() == 1 || state.reduced.numel() == 0 || skip) return;
  state.launched = core::now();
  state.over_copies =
      copies_.all_reduce(state.reduced, options_.reduce, buckets_[b].label, &state.copy_stats);
}

void Gradients::finish_copies() {
  if (copies_.size() == 1) return;
  for (std::size_t b = 0; b < states_.size(); ++b) {
    State& state = states_[b];
    if (state.reduced.numel() == 0) continue;
    state.over_copies.wait();
    if (trace_ != nullptr && trace_->on())
      trace_->add("comm", "reduce over copies " + buckets_[b].label, state.launched, core::now());
    const backend::ReduceStats& stats = state.copy_stats;
    for (std::size_t i = 0; i < stats.squares.size(); ++i) {
      const std::size_t block = state.first_own_block + stats.first_block + i;
      block_squares_[buckets_[b].blocks[block]] = stats.squares[i];
    }
  }
}

// The sum of squares is that of the sum over all micro-batches, so it is taken from the last.
void Gradients::add_up(std::size_t b) {
  State& state = states_[b];
  state.reduced.add_(state.arriving);
  state.arriving.reset();
  if (microbatch_ + 1 < microbatches_ || copies_.size() > 1) return;
  const Bucket& bucket = buckets_[b];
  const std::int64_t begin = shard_begin(bucket, shards_.rank());
  const std::int64_t end = begin + bucket.shard_counts[shards_.rank()];
  AT_DISPATCH_FLOATING_TYPES(state.reduced.scalar_type(), "gradient_norm", [&] {
    const auto* values = state.reduced.const_data_ptr<scalar_t>();
    for (std::size_t i = 0; i < bucket.blocks.size(); ++i) {
      const std::int64_t from = bucket.block_starts[i];
      const std::int64_t to =
          i + 1 < bucket.blocks.size() ? bucket.block_starts[i + 1] : bucket.elements;
      if (from < begin || from >= end) continue;
      block_squares_[bucket.blocks[i]] = sum_of_squares(values + (from - begin), to - from);
    }
  });
}

void Gradients::collect_stats(std::size_t b) {
  const backend::ReduceStats& stats = states_[b].stats;
  for (std::size_t i = 0; i < stats.squares.size(); ++i) {
    const int block = buckets_[b].blocks[stats.first_block + i];
    if (copies_.size() == 1) block_squares_[block] = stats.squares[i];
    // Replicas are counted group by group.
    const int first_replica = copies_.rank() * shards_.size();
    block_not_finite_[block] |=
        static_cast<std::int64_t>(std::rotl(stats.not_finite[i], first_replica));
  }
}

void Gradients::microbatch_done() {
  if (!sharded()) return;
  const core::Stopwatch watch;
  launch_rest();
  finish_until(0);
  ++microbatch_;
  if (microbatch_ < microbatches_) expect_contributions();
  exposed_s_ += watch.elapsed().count();
}

void Gradients::wait() {
  const core::Stopwatch watch;
  if (!sharded()) {
    launch_rest();
    finish_until(0);
  }
  finish_copies();
  exposed_s_ += watch.elapsed().count();
}

}  // namespace tutti::parallel
