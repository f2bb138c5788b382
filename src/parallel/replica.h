// One data-parallel copy of the model, or the part of it that a tensor-parallel rank holds:
// parameters, gradients, and who updates which piece.
//
// A step:  begin_step(m)
//          ... m times forward and backward: acquire() before each layer, arrived() for each
//          contribution, microbatch_done(); a full bucket starts its reduction ...
//          wait_grads()       sums over all replicas are in place, statistics known
//          (update what updated() lists)
//          publish_params()   every replica sees all new parameters
#pragma once

#include <cstdint>
#include <vector>

#include "backend/group.h"
#include "core/trace.h"
#include "parallel/bucket.h"
#include "parallel/fault.h"
#include "parallel/gradients.h"
#include "parallel/parameters.h"
#include "parallel/tensor_parallel.h"
#include "parallel/weight_grads.h"
#include "spec/model_spec.h"

namespace tutti::parallel {

struct ReplicaOptions {
  /// What the ranks share out. 0: nothing; 1: optimizer state; 2: gradients too; 3: parameters too.
  int zero = 1;
  bool share_pages = true;  // from ZeRO 1 on: ranks of a host map one copy of the parameters
  bool overlap = true;      // false: reductions start when backward has ended; the same bits
  std::int64_t bucket_bytes = 1 << 20;
  /// In which layers compute. bf16: parameters are updated, and gradients added up, in fp32.
  at::ScalarType type = at::kFloat;
  backend::Reduce reduce = backend::ReduceOp::Sum;  // of gradients; or Avg
  Fault fault = Fault::None;
  /// ZeRO 3 with private shards: the parameters that each layer of the stage reads, and how many
  /// layers are held at once.
  std::vector<std::vector<int>> reads;
  int window = 2;
  bool sequence = true;  // sequence parallelism, with several tensor-parallel ranks
};

/// Replicas come in shard groups of equal size, often one; the members of each share out parameters
/// and state as ZeRO says. Ranks with the same share in different groups are copies of each other.
struct ReplicaGroups {
  backend::Group shards;   // gradients
  backend::Group copies;   // gradients, once they are reduced in the shard group
  backend::Group gathers;  // parameters: the ranks of `shards`, a queue of its own
  backend::Group tp;       // ranks that hold one replica together
};

/// Whether `ranks` replicas of a shard group on one host are to map one copy of the parameters: not
/// at ZeRO 0, where every rank updates everything, each its own copy.
[[nodiscard]] inline bool wants_shared_pages(const ReplicaOptions& options, int ranks) {
  return options.share_pages && options.zero > 0 && ranks > 1;
}

/// A piece of a parameter with its memory: flat views of `slice.count` elements, valid as long as
/// the Replica. mesh::place_in_whole() says where they lie in the whole parameter.
struct ShardView {
  int param = 0;
  mesh::Cut cut;          // the part of the parameter that this rank and its replicas hold
  mesh::FlatSlice slice;  // of the part
  at::Tensor value;       // what is updated: with bf16 the fp32 masters
  at::Tensor grad;
};

/// Owns parameters and gradients of this rank, in arena memory. Used by one thread.
class Replica {
 public:
  /// Collective over the groups: all ranks construct it with the same model and options. Values are
  /// unspecified until initialised or loaded. `trace` may be null; it outlives the replica.
  Replica(const spec::ModelSpec& spec, ReplicaGroups groups, const ReplicaOptions& options,
          core::Trace* trace);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// The parameter, or this rank's part of it, in its shape, a leaf that requires grad. Where
  /// parameters are sharded its values are those of an earlier layer until acquire().
  [[nodiscard]] const at::Tensor& value(int param) const { return parameters_.value(param); }
  [[nodiscard]] WeightGrads& weight_grads() { return weight_grads_; }
  /// What the ranks that hold this copy together exchange.
  [[nodiscard]] TensorParallel& tensor_parallel() { return tp_; }

  /// Layer `layer` of the stage is about to run: its parameters are there when this returns.
  void acquire(int layer, Direction direction) { parameters_.acquire(layer, direction); }

  /// Pieces that this rank initialises and publishes: a partition over the shard group.
  [[nodiscard]] const std::vector<ShardView>& owned() const { return owned_; }
  /// Whether this rank's part of a parameter is the one that counts: what is replicated over
  /// tensor-parallel ranks counts on the first of them.
  [[nodiscard]] bool counts(int param) const {
    return tp_.rank() == 0 || params_[param].tp.has_value();
  }
  /// Owned pieces that count, of first copies, are a partition of the model over all ranks.
  [[nodiscard]] bool first_copy() const { return first_copy_; }
  /// Pieces this rank updates: everything at ZeRO 0, else owned().
  [[nodiscard]] const std::vector<ShardView>& updated() const { return updated_; }

  /// `microbatches` backward passes will follow.
  void begin_step(int microbatches);

  /// Waits for all reductions; parameters that got no gradient count as zeros. The first error of
  /// any bucket is thrown.
  void wait_grads();

  /// Sums of squares per block of 4,096 elements of each parameter (this rank's part of it), in
  /// model order; blocks that other replicas own are 0.
  [[nodiscard]] const std::vector<double>& block_squares() const {
    return gradients_.block_squares();
  }
  /// Per such block: bit r set if rank r brought an infinity or a NaN.
  [[nodiscard]] const std::vector<std::int64_t>& block_not_finite() const {
    return gradients_.block_not_finite();
  }
  /// The parameter a block belongs to.
  [[nodiscard]] int param_of_block(std::int64_t block) const { return param_of_block_[block]; }

  /// Blocks of all parameters.
  [[nodiscard]] std::int64_t num_blocks() const {
    return static_cast<std::int64_t>(param_of_block_.size());
  }

  /// Makes the owners' values visible to all replicas.
  void publish_params();
  /// The same from owned() whatever the ZeRO stage: after initialisation and loading.
  void publish_owned() { parameters_.publish(); }

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Shared: all ranks look at one copy of the parameters. Then an update is seen by the others as
  /// it happens: it may begin once every rank has read for the last time (wait_grads() and a
  /// collective of all ranks behind it), and publishing is a barrier.
  [[nodiscard]] ParamMemory memory() const { return parameters_.memory(); }
  /// Seconds this rank stood for communication in this step; asked once, at its end.
  [[nodiscard]] double take_exposed_comm_s();

 private:
  [[nodiscard]] std::vector<ShardView> views(const std::vector<OwnedSlice>& slices) const;

  ReplicaOptions options_;
  int rank_;  // in the shard group
  bool first_copy_;
  core::Trace* trace_;
  TensorParallel tp_;
  std::vector<spec::Param> params_;  // in this rank's shapes
  std::vector<mesh::Cut> cuts_;      // of each
  std::vector<Bucket> buckets_;
  Parameters parameters_;
  Gradients gradients_;
  WeightGrads weight_grads_{&gradients_};
  std::vector<ShardView> owned_, updated_;
  std::vector<int> param_of_block_;
  double publish_s_ = 0;
};

}  // namespace tutti::parallel
