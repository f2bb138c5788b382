// When everything happens: the exact event simulation of a schedule's action lists.
#pragma once

#include <vector>

#include "schedule/pipeline_play.h"

namespace tutti::schedule {

/// First start to last end of one stage.
struct Span {
  double begin = 0;
  double end = 0;
  [[nodiscard]] double length() const { return end - begin; }
};

/// Times in the unit of the PipelineTimes.
struct Simulation {
  double makespan = 0;        // first start to last end over all stages
  double max_stage_span = 0;  // largest own first start to own last end
  double ideal_time = 0;  // work of the busiest stage: microbatches * (F + B + W), times its chunks
  double bubble = 0;      // 1 - ideal_time / max_stage_span: what "bubble" means everywhere
  double bubble_global = 0;  // 1 - ideal_time / makespan: what a step sees that clips gradients
  std::vector<Span> spans;   // [stage]
  std::vector<std::vector<PipelineEvent>> events;  // [stage], compute actions in order

  [[nodiscard]] double bubble_time() const { return max_stage_span - ideal_time; }
};

/// Prices the lists under the schedule's own slots (see `play` for the rules).
/// Throws std::invalid_argument if the lists wait for each other for ever: ask verify() for the
/// reason.
Simulation simulate(const PipelineSchedule& schedule, const PipelineTimes& times);

/// The same from a play that finished.
Simulation summarize(const PipelineSchedule& schedule, const PipelineTimes& times, Played played);

}  // namespace tutti::schedule
