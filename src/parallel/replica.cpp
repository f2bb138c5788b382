// Which memory a ZeRO stage means, and the pieces of parameters that a rank owns.
#include "parallel/replica.h"

#include <algorithm>

#include "tensor/products.h"

namespace tutti::parallel {
namespace {

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

// Who is alone in a shard group shards nothing; a replica that is alone has nobody to be wrong
// about.
ReplicaOptions for_groups(ReplicaOptions options, const ReplicaGroups& groups) {
  if (groups.shards.size() == 1) options.zero = std::min(options.zero, 1);
  if (groups.shards.size() == 1 && groups.copies.size() == 1) options.fault = Fault::None;
  return options;
}

ParameterOptions parameter_options(const ReplicaOptions& options, int ranks) {
  const bool shared = wants_shared_pages(options, ranks);
  const ParamMemory alone = options.zero == 3 ? ParamMemory::Sharded : ParamMemory::Own;
  return {.memory = shared ? ParamMemory::Shared : alone,
          .without_sharing = alone,
          .type = options.type,
          .update_all = options.zero == 0,
          .reads = options.reads,
          .window = options.window};
}

GradientOptions gradient_options(const ReplicaOptions& options) {
  GradMemory memory = GradMemory::Kept;
  if (options.zero == 0) memory = GradMemory::Replicated;
  if (options.zero >= 2) memory = GradMemory::Sharded;
  return {.memory = memory,
          .overlap = options.overlap,
          .type = tensor::wide_type(options.type),
          .reduce = options.reduce,
          .fault = options.fault};
}

BucketOptions bucket_options(const ReplicaOptions& options, int ranks, const TensorParallel& tp) {
  const auto element_bytes = c10::elementSize(tensor::wide_type(options.type));
  return {.ranks = ranks,
          .element_bytes = static_cast<std::int64_t>(element_bytes),
          .bucket_bytes = options.bucket_bytes,
          .by_layer = options.zero == 3,
          .splits_rows = tp.splits_rows()};
}

std::vector<spec::Param> params_of(const spec::ModelSpec& spec, const TensorParallel& tp) {
  std::vector<spec::Param> params = spec.params;
  if (!tp.has(Fault::OneBand)) return params;
  for (spec::Param& param : params) {
    if (param.tp) param.tp->bands = 1;
  }
  return params;
}

std::vector<mesh::Cut> cuts_of(const std::vector<spec::Param>& params, const TensorParallel& tp) {
  std::vector<mesh::Cut> cuts;
  for (const spec::Param& param : params) {
    cuts.push_back(spec::cut_of(param, tp.rank(), tp.size()));
  }
  return cuts;
}

}  // namespace

Replica::Replica(const spec::ModelSpec& spec, ReplicaGroups groups, const ReplicaOptions& options,
                 core::Trace* trace)
    : options_(for_groups(options, groups)),
      rank_(groups.shards.rank()),
      first_copy_(groups.copies.rank() == 0),
      trace_(trace),
      tp_(groups.tp, {.sequence = options.sequence, .fault = options.fault}, trace),
      params_(spec::local_params(params_of(spec, tp_), tp_.rank(), tp_.size())),
      cuts_(cuts_of(params_of(spec, tp_), tp_)),
      buckets_(plan_buckets(params_, bucket_options(options_, groups.shards.size(), tp_))),
      parameters_(params_, buckets_, groups.shards, groups.gathers,
                  parameter_options(options_, groups.shards.size()), trace),
      gradients_(params_, buckets_, {groups.shards, groups.copies}, tp_, gradient_options(options_),
                 trace) {
  for (std::size_t param = 0; param < params_.size(); ++param) {
    const std::int64_t blocks = parallel::num_blocks({params_[param]});
    param_of_block_.insert(param_of_block_.end(), blocks, static_cast<int>(param));
  }
  owned_ = views(owned_slices(params_, buckets_, rank_));
  updated_ = options_.zero == 0 ? views(all_slices(params_, buckets_)) : owned_;
}

std::vector<ShardView> Replica::views(const std::vector<OwnedSlice>& slices) const {
  std::vector<ShardView> result;
  for (const OwnedSlice& owned : slices) {
    const auto bucket = static_cast<std::size_t>(owned.bucket);
    const bool whole = options_.zero == 0;
    const std::int64_t first = owned.offset - (whole ? 0 : shard_begin(buckets_[bucket], rank_));
    result.push_back({owned.param, cuts_[owned.param], owned.slice,
                      parameters_.masters(bucket).narrow(0, first, owned.slice.count),
                      gradients_.reduced(bucket).narrow(0, first, owned.slice.count)});
  }
  return result;
}

void Replica::begin_step(int microbatches) {
  publish_s_ = 0;
  parameters_.begin_step();
  gradients_.begin_step(microbatches);
}

void Replica::wait_grads() {
  gradients_.wait();
  if (options_.fault == Fault::SwapShard && rank_ == 0 && !owned_.empty()) {
    owned_.front().grad.copy_(owned_.front().grad.flip({0}));
  }
}

void Replica::publish_params() {
  if (options_.zero == 0) return parameters_.publish_updated();
  const core::Stopwatch watch;
  const core::TraceScope scope(trace_, "comm", "publish parameters");
  parameters_.publish();
  publish_s_ = watch.elapsed().count();
}

double Replica::take_exposed_comm_s() {
  return gradients_.exposed_s() + parameters_.exposed_s() + publish_s_ + tp_.take_exposed_s();
}

}  // namespace tutti::parallel
