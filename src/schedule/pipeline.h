// All pipeline orders by name: what `[parallel] schedule` and `tutti schedule` may say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "schedule/pipeline_schedule.h"
#include "schedule/zero_bubble_auto.h"

namespace tutti::schedule {

/// What an order is asked for. Times are used by zb-auto only; the others have a fixed order.
struct PipelineRequest {
  std::string name;
  int stages = 1;
  int microbatches = 1;
  int chunks = 0;  // per stage; 0: as many as the order wants (zb-v 2, interleaved 2, the rest 1)
  std::optional<PipelineTimes> times;  // default: F = B = W = 1 per stage, free transfers
  /// Activations per stage, in micro-batches; zb-auto's default: stages.
  std::optional<double> memory;
  double kept_for_weights = kKeptForWeights;  // zb-auto: see PipelineSchedule; 0 ... 1
};

/// gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, zb-auto.
const std::vector<std::string>& pipeline_names();

/// Placement and chunks that the order of this name has; `chunks` as in PipelineRequest. The name
/// must be known.
PipelineShape pipeline_shape(const PipelineRequest& request);

/// What is wrong with the request, each with the cure; empty: make_pipeline works. A memory limit
/// is checked against the order.
std::vector<core::Problem> check(const PipelineRequest& request);

/// Throws core::ConfigError with check()'s problems.
PipelineSchedule make_pipeline(const PipelineRequest& request);

}  // namespace tutti::schedule
