// Plays action lists against a clock: the one loop behind pipeline_simulate and the deadlock proof
// of pipeline_verify.
#pragma once

#include <vector>

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// One compute action with its times.
struct PipelineEvent {
  PipelineAction action;
  double begin = 0;
  double end = 0;
};

/// How far the lists came.
struct Played {
  bool finished = false;
  std::vector<std::size_t> next;  // [stage]: first action not done; the list's size when done
  std::vector<double> begin;      // [stage]: start of the first compute action
  std::vector<double> end;        // [stage]: end of the last compute action
  std::vector<std::vector<PipelineEvent>> events;  // [stage], only if asked for
};

/// Runs every stage as far as it comes. A receive waits for the n-th send of its edge plus the
/// transfer; the n-th send of an edge with S slots waits for the (n - S)-th weight gradient of the
/// receiving chunk. Compute actions only take time. Since nobody chooses between messages, the
/// result does not depend on the order in which stages are visited. Cost: one visit per action.
/// Throws std::invalid_argument if an action has no edge or times are not one per position.
Played play(const PipelineSchedule& schedule, const PipelineTimes& times, bool keep_events = false);

/// The same with `slots` instead of the schedule's.
Played play(const PipelineSchedule& schedule, const PipelineTimes& times,
            const std::vector<int>& slots, bool keep_events = false);

/// Micro-batch count as slots: no send ever waits.
std::vector<int> unlimited_slots(const PipelineShape& shape);

}  // namespace tutti::schedule
