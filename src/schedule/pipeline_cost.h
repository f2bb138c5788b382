// Closed forms of the pipeline orders, each with the range in which it is exact. Outside it the
// simulation is the truth.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// For p stages, m micro-batches, v chunks, F, B, W times of a whole stage (T their sum), c the
/// transfer.
struct PipelineCost {
  double bubble_time = 0;    // longest stage span - mT
  double peak = 0;           // activations of the fullest stage, in micro-batches
  std::string_view formula;  // of the bubble time
  std::string_view holds_for;
};

/// What a form is asked for. Even stages only.
struct CostQuestion {
  PipelineShape shape;
  ActionTimes stage;  // of a whole stage
  double transfer = 0;
};

/// The closed form of `name`, or nothing where none is known to be exact (an unknown name too).
std::optional<PipelineCost> pipeline_cost(std::string_view name, const CostQuestion& question);

}  // namespace tutti::schedule
