// zb-auto: the order with the smallest bubble that a search finds for these times under a memory
// limit.
#pragma once

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// What the search may use.
struct SearchLimits {
  double memory = 0;                          // activations per stage, in micro-batches; >= 1
  double kept_for_weights = kKeptForWeights;  // see PipelineSchedule; 0 <= share <= 1
};

/// Tries a grid of orders, prices each with `simulate` and returns the best: smallest bubble, then
/// smallest makespan, then smallest peak. One order of the grid fills the wait for the first input
/// gradient with as many forwards as fit, then alternates input gradient and forward, with weight
/// gradients in gaps or where memory runs out. zb-h1 and zb-h2 are candidates too where they fit.
/// Stages may be uneven. One chunk per stage. Deterministic. Throws std::invalid_argument if the
/// shape or times are not valid, memory < 1 (a stage must hold one micro-batch to do anything), or
/// the share is not within 0 and 1.
PipelineSchedule zb_auto(int stages, int microbatches, const PipelineTimes& times,
                         const SearchLimits& limits);

}  // namespace tutti::schedule
