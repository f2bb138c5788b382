// Everything a training run is besides its config: parameters, optimizer state, place in the data.
// Saved and loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/writer.h"
#include "parallel/replica.h"
#include "spec/model_spec.h"
#include "train/optimizer.h"

namespace tutti::train {

/// Where a run stands between two steps.
struct Progress {
  std::int64_t step = 0;      // optimizer steps done
  std::uint64_t samples = 0;  // global sample counter
  std::optional<double> valid_loss;
};

/// The type in which a checkpoint holds its parameters.
at::ScalarType parameter_type(const checkpoint::Index& index);

/// A copy of what this rank owns, which a thread may write while training goes on.
class Snapshot {
 public:
  Snapshot(const spec::ModelSpec& spec, const parallel::Replica& replica,
           const Optimizer& optimizer);
  /// The same with gradients ("grad/NAME") in place of optimizer state: a dump for `tutti verify`.
  static Snapshot with_gradients(const spec::ModelSpec& spec, const parallel::Replica& replica,
                                 double grad_scale);

  [[nodiscard]] const std::vector<checkpoint::OwnedPiece>& pieces() const { return pieces_; }

 private:
  Snapshot() = default;
  void add(const spec::Param& param, const std::string& prefix, const parallel::ShardView& piece,
           const at::Tensor& values);

  std::vector<at::Tensor> copies_;
  std::vector<checkpoint::OwnedPiece> pieces_;
};

/// Fills this rank's parameters and optimizer state from a checkpoint of any layout, then publishes
/// the parameters. Collective. Throws core::ConfigError for another model or damage.
Progress load(const std::filesystem::path& checkpoint, const spec::ModelSpec& spec,
              parallel::Replica& replica, Optimizer& optimizer, const core::Json& model);

/// Parameters only (sampling, evaluation): every rank reads all of them.
void load_parameters(const std::filesystem::path& checkpoint, const spec::ModelSpec& spec,
                     parallel::Replica& replica);

/// Hash over all parameters, each element counted once by its owner: equal for every layout.
std::uint64_t owned_param_hash(const spec::ModelSpec& spec, const parallel::Replica& replica);

}  // namespace tutti::train
