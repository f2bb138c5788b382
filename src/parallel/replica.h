// One data-parallel copy of the parameters: their memory, their gradients' buckets, and who updates
// which part.
//
// A step:  begin_step(m)
//          ... backward of m micro-batches; each contribution calls arrived(), a full bucket starts
//          its reduction ... wait_grads()            sums over all replicas are in place,
//          statistics known (update what updated() lists) publish_params()        every replica
//          sees all new parameters
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/group.h"
#include "core/trace.h"
#include "parallel/bucket.h"
#include "parallel/fault.h"
#include "parallel/weight_grads.h"
#include "spec/model_spec.h"

namespace tutti::parallel {

struct ReplicaOptions {
  int zero = 1;             // 0: every rank updates everything; 1: each its shard
  bool share_pages = true;  // ZeRO 1: ranks of a host map one copy of the parameters
  bool overlap = true;      // false: reductions start in wait_grads(); the same bits
  std::int64_t bucket_bytes = 1 << 20;
  at::ScalarType type = at::kFloat;
  Fault fault = Fault::None;
};

/// Whether `ranks` replicas on one host are to map one copy of the parameters: not at ZeRO 0, where
/// every rank updates everything, each its own copy.
[[nodiscard]] inline bool wants_shared_pages(const ReplicaOptions& options, int ranks) {
  return options.share_pages && options.zero > 0 && ranks > 1;
}

/// A piece of a parameter with its memory: flat views of `slice.count` elements, valid as long as
/// the Replica.
struct ShardView {
  int param = 0;
  mesh::FlatSlice slice;
  at::Tensor value;
  at::Tensor grad;
};

/// Owns parameters and gradients of this rank, in arena memory. Used by one thread.
class Replica final : public GradSlots {
 public:
  /// Collective over `dp`: all ranks construct it with the same model and options. Values are
  /// unspecified until initialised or loaded. `trace` may be null; it outlives the replica.
  Replica(const spec::ModelSpec& spec, backend::Group dp, const ReplicaOptions& options,
          core::Trace* trace);

  /// The whole parameter in its global shape, a leaf that requires grad.
  [[nodiscard]] const at::Tensor& value(int param) const { return values_[param]; }
  [[nodiscard]] WeightGrads& weight_grads() { return weight_grads_; }

  /// Pieces whose elements this rank counts as its own (checkpoint, hash, initialisation): a
  /// partition over ranks.
  [[nodiscard]] const std::vector<ShardView>& owned() const { return owned_; }
  /// Pieces this rank updates: owned() at ZeRO 1, everything at ZeRO 0.
  [[nodiscard]] const std::vector<ShardView>& updated() const { return updated_; }

  /// `microbatches` backward passes will follow.
  void begin_step(int microbatches);

  /// Waits for all reductions; parameters that got no gradient count as zeros. The first error of
  /// any bucket is thrown.
  void wait_grads();

  /// Sums of squares per block of 4,096 elements of each parameter, in model order; blocks reduced
  /// by other ranks are 0.
  [[nodiscard]] const std::vector<double>& block_squares() const { return block_squares_; }
  /// Per such block: bit r set if rank r brought an infinity or a NaN.
  [[nodiscard]] const std::vector<std::int64_t>& block_not_finite() const {
    return block_not_finite_;
  }
  /// The parameter a block belongs to.
  [[nodiscard]] int param_of_block(std::int64_t block) const { return param_of_block_[block]; }

  /// Makes the owners' values visible to all replicas.
  void publish_params();
  /// The same from owned() whatever the ZeRO stage: after initialisation and loading.
  void publish_owned();

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Whether all ranks look at one copy of the parameters. Then an update is seen by the others as
  /// it happens: it may begin once every rank has read for the last time (wait_grads() and a
  /// collective of all ranks behind it), and publishing is a barrier.
  [[nodiscard]] bool shares_pages() const { return shared_values_; }
  /// Seconds this rank stood in wait_grads() and publish_params() of the last step.
  [[nodiscard]] double exposed_comm_s() const { return exposed_s_; }

  // GradSlots
  const at::Tensor& slot(int param) override;
  bool first(int param) override { return contributions_[param] == 0; }
  void arrived(int param) override;

 private:
  struct BucketState {
    at::Tensor values, grads;  // flat, arena memory
    int missing = 0;           // parameters that still wait for contributions
    backend::Pending pending;
    std::string publish_label;  // made once: a step makes no strings
    backend::ReduceStats stats;
    core::Seconds launched{};
  };

  void allocate(const spec::ModelSpec& spec);
  at::Tensor allocate_values(const Bucket& bucket);
  std::vector<ShardView> views(const std::vector<OwnedSlice>& slices) const;
  void launch_ready();
  void launch(std::size_t bucket);
  void collect_stats(std::size_t bucket);
  void gather();

  backend::Group dp_;
  ReplicaOptions options_;
  core::Trace* trace_;
  std::vector<Bucket> buckets_;
  std::vector<BucketState> states_;
  std::vector<int> bucket_of_;  // per parameter
  std::vector<int> uses_;       // per parameter: contributions per micro-batch
  std::vector<at::Tensor> values_, grads_;
  std::vector<int> contributions_;  // per parameter, this step
  std::vector<ShardView> owned_, updated_;
  std::vector<int> param_of_block_;
  std::vector<double> block_squares_;
  std::vector<std::int64_t> block_not_finite_;
  at::Tensor dropped_;           // where a planted fault lets contributions vanish
  std::size_t next_bucket_ = 0;  // buckets are launched in order, the same on every rank
  int microbatches_ = 0;
  double exposed_s_ = 0;
  bool shared_values_ = false;
  WeightGrads weight_grads_{this};
};

}  // namespace tutti::parallel
