// Runs a list of pipeline actions on a stage. It decides nothing: what, when and in which order
// stands in the list.
#pragma once

#include <vector>

#include "parallel/stage.h"
#include "parallel/weight_grads.h"
#include "schedule/pipeline_action.h"

namespace tutti::parallel {

/// Runs the actions in order. Returns the sum of the losses over all micro-batches (fp64).
/// `executed` (may be null) receives each action after it ran: the proof that the schedule is what
/// happened.
double run_pipeline(const std::vector<schedule::PipelineAction>& actions, Stage& stage,
                    WeightGrads& weight_grads, const std::vector<MicroBatch>& batches,
                    std::vector<schedule::PipelineAction>* executed = nullptr);

}  // namespace tutti::parallel
