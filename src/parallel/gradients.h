// This rank's gradients: the memory that backward writes them into, who has contributed, their
// reduction over the replicas, and what is known of the result.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backend/group.h"
#include "core/trace.h"
#include "parallel/bucket.h"
#include "parallel/fault.h"
#include "parallel/tensor_parallel.h"
#include "parallel/weight_grads.h"

namespace tutti::parallel {

/// Who holds a reduced gradient.
enum class GradMemory {
  Replicated,  // every rank, whole; reduced once per step (ZeRO 0)
  Kept,        // its owner; the bucket stays, and is reduced once per step (ZeRO 1)
  Sharded,     // its owner; a bucket lives from its first contribution to its reduction, which
               // happens in every micro-batch (ZeRO 2 and 3)
};

struct GradientOptions {
  GradMemory memory = GradMemory::Kept;
  bool overlap = true;  // false: reductions start when a step's (Sharded: a micro-batch's) end
  at::ScalarType type = at::kFloat;
  backend::Reduce reduce = backend::ReduceOp::Sum;  // of the replicas' gradients; or Avg
  Fault fault = Fault::None;
};

/// Over whom gradients are reduced: scattered over `shards`, then over the ranks that own the same
/// part of other shard groups.
struct GradientGroups {
  backend::Group shards;
  backend::Group copies;
};

/// Owns gradients in arena memory. Used by one thread.
class Gradients final : public GradSlots {
 public:
  /// Collective over the groups; with several copies not Replicated. `params` (in the shapes of
  /// this rank) and `buckets` outlive the object, `tp` and `trace` (may be null) too.
  Gradients(const std::vector<spec::Param>& params, const std::vector<Bucket>& buckets,
            GradientGroups groups, TensorParallel& tp, const GradientOptions& options,
            core::Trace* trace);

  /// `microbatches` backward passes will follow, each ended by microbatch_done().
  void begin_step(int microbatches);
  /// The sums over all micro-batches and replicas are in place. The first error of any bucket is
  /// thrown.
  void wait();

  /// This rank's part of a bucket's gradients, flat; Replicated: all of it.
  [[nodiscard]] const at::Tensor& reduced(std::size_t bucket) const {
    return states_[bucket].reduced;
  }

  /// Sums of squares per block of 4,096 elements of each parameter, in model order; blocks that
  /// other ranks own are 0.
  [[nodiscard]] const std::vector<double>& block_squares() const { return block_squares_; }
  /// Per such block: bit r set if rank r brought an infinity or a NaN.
  [[nodiscard]] const std::vector<std::int64_t>& block_not_finite() const {
    return block_not_finite_;
  }
  /// Seconds of this step in which backward had ended or stood, for the sake of reductions.
  [[nodiscard]] double exposed_s() const { return exposed_s_; }

  // GradSlots
  const at::Tensor& slot(int param) override;
  bool first(int param) override { return contributions_[param] == 0; }
  void arrived(int param) override;
  void microbatch_done() override;

 private:
  struct State {
    at::Tensor whole;     // flat, all ranks' parts; Sharded: undefined while nobody needs it
    at::Tensor reduced;   // Kept: a part of `whole`
    at::Tensor arriving;  // Sharded: the part of a second and later micro-batch, to be added
    int missing = 0;      // parameters that still wait for contributions
    backend::Pending pending;
    backend::ReduceStats stats;  // where copies follow, squares are theirs
    backend::Pending over_copies;
    backend::ReduceStats copy_stats;  // of this rank's part, by its blocks:
    std::size_t first_own_block = 0;
    std::vector<std::int64_t> own_block_starts;
    core::Seconds launched{};
  };

  [[nodiscard]] bool sharded() const { return options_.memory == GradMemory::Sharded; }
  [[nodiscard]] at::Tensor own_part(std::size_t bucket) const;
  void expect_copies(std::size_t bucket);
  void open(std::size_t bucket);
  void expect_contributions();
  void launch_ready();
  void launch_rest();
  void launch(std::size_t bucket);
  void finish_until(std::size_t under_way);
  void finish(std::size_t bucket);
  void add_up(std::size_t bucket);
  void reduce_over_copies(std::size_t bucket);
  void finish_copies();
  void collect_stats(std::size_t bucket);

  const std::vector<spec::Param>& params_;
  const std::vector<Bucket>& buckets_;
  backend::Group shards_, copies_;
  TensorParallel& tp_;
  GradientOptions options_;
  core::Trace* trace_;
  std::vector<State> states_;
  std::vector<int> bucket_of_;  // per parameter
  std::vector<at::Tensor> grads_;
  std::vector<int> contributions_;  // per parameter: this step's; Sharded: this micro-batch's
  std::vector<double> block_squares_;
  std::vector<std::int64_t> block_not_finite_;
  at::Tensor dropped_;                 // where a planted fault lets contributions vanish
  std::size_t next_bucket_ = 0;        // buckets are launched in order, the same on every rank
  std::deque<std::size_t> under_way_;  // launched, not yet finished
  int microbatches_ = 0;
  int microbatch_ = 0;
  double exposed_s_ = 0;
};

}  // namespace tutti::parallel
