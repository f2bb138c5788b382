// A model ready to run: its stage over a replica's weights, and initial values.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace.h"
#include "parallel/replica.h"
#include "parallel/stage.h"
#include "spec/model_spec.h"
#include "spec/operation.h"

namespace tutti::model {

struct StageOptions {
  std::uint64_t seed = 0;
  /// Cheap: norm and GELU outputs are made again in backward. Full: whole blocks. The same bits.
  spec::Recompute recompute = spec::Recompute::None;
};

/// The parameters that each layer of that stage reads: its own, and the head the tied embedding.
std::vector<std::vector<int>> reads_of_layers(const spec::ModelSpec& spec);

/// The whole model as one stage. Replica and trace (may be null) outlive it.
parallel::Stage build_stage(const spec::ModelSpec& spec, parallel::Replica& replica,
                            const StageOptions& options, core::Trace* trace);

/// Fills the pieces this rank owns with the model's initial values and publishes them: the same
/// bits for any number of ranks. Collective over the replicas.
void initialise(const spec::ModelSpec& spec, parallel::Replica& replica, std::uint64_t seed);

}  // namespace tutti::model
