// This rank's parameters: the memory that layers read, the part that this rank updates, and how an
// update reaches the other replicas.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/group.h"
#include "core/trace.h"
#include "parallel/bucket.h"
#include "parallel/gather_plan.h"
#include "parallel/stage.h"

namespace tutti::parallel {

/// Where values are.
enum class ParamMemory {
  Own,      // a whole copy per rank; owners' parts are gathered after an update
  Shared,   // one copy in pages that all ranks map
  Sharded,  // each rank its part (ZeRO 3); a layer's are gathered when it is about to run
};

struct ParameterOptions {
  ParamMemory memory = ParamMemory::Own;
  ParamMemory without_sharing = ParamMemory::Own;  // in place of Shared where ranks cannot share
  at::ScalarType type = at::kFloat;                // in which layers read them
  bool update_all = false;  // Own: every rank updates all of its copy (ZeRO 0)
  /// Sharded: the parameters that each layer of the stage reads, and how many layers' are held at
  /// once (at least 2).
  std::vector<std::vector<int>> reads;
  int window = 2;
};

/// Owns parameters in arena memory. Used by one thread.
class Parameters {
 public:
  /// Collective over `dp`; values are unspecified. `params` and `buckets` outlive the object,
  /// `trace` (may be null) too. `gathers`: the same ranks, for gathers that must not queue behind
  /// reductions of gradients.
  Parameters(const std::vector<spec::Param>& params, const std::vector<Bucket>& buckets,
             backend::Group dp, backend::Group gathers, const ParameterOptions& options,
             core::Trace* trace);

  /// The whole parameter in its global shape, a leaf that requires grad. Sharded: its values are
  /// there from acquire() of a layer that reads it until another layer takes its place.
  [[nodiscard]] const at::Tensor& value(int param) const { return values_[param]; }
  /// Where this rank updates a bucket, flat, in tensor::wide_type() of the type: its part, or all.
  /// For bf16 these are masters of their own, which layers do not see.
  [[nodiscard]] const at::Tensor& masters(std::size_t bucket) const {
    return states_[bucket].masters;
  }
  [[nodiscard]] ParamMemory memory() const { return options_.memory; }

  /// The masters of every rank's part are new: all layers see them. Collective.
  void publish();
  /// With `update_all`: all masters are new on every rank.
  void publish_updated();

  /// Layer `layer` of the stage is about to run.
  void acquire(int layer, Direction direction);

  /// Seconds in which a layer stood in acquire(), since begin_step().
  [[nodiscard]] double exposed_s() const { return exposed_s_; }
  void begin_step() { exposed_s_ = 0; }

 private:
  struct State {
    at::Tensor whole;  // Sharded: a view of the bucket's place
    at::Tensor shard;  // Sharded only
    at::Tensor masters;
    backend::Pending pending;
    std::string label;  // made once: a step makes no strings
    core::Seconds launched{};
  };

  bool allocate_shared();
  void allocate_sharded();
  void make_views();
  [[nodiscard]] bool has_masters() const;
  [[nodiscard]] at::Tensor part_of(std::size_t bucket, const at::Tensor& whole) const;
  [[nodiscard]] at::Tensor own_part(std::size_t bucket) const;
  void round_masters();
  void launch_gather(std::size_t bucket, const at::Tensor& whole, const at::Tensor& part);
  void gather_all(bool masters);
  void fetch(int layer);

  const std::vector<spec::Param>& params_;
  const std::vector<Bucket>& buckets_;
  backend::Group dp_, gathers_;
  ParameterOptions options_;
  core::Trace* trace_;
  std::optional<GatherPlan> plan_;
  std::vector<int> held_;  // per place of the plan: the bucket whose values it holds; -1
  std::vector<State> states_;
  std::vector<at::Tensor> values_;
  double exposed_s_ = 0;
};

}  // namespace tutti::parallel
