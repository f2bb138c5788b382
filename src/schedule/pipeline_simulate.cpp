// Spans and bubbles from a played schedule.
#include "schedule/pipeline_simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::schedule {
namespace {

/// Work of the busiest stage in one step: no order can have a shorter span.
double busiest(const PipelineShape& shape, const PipelineTimes& times) {
  std::vector<double> work(static_cast<std::size_t>(shape.stages), 0);
  for (int position = 0; position < shape.positions(); ++position) {
    work[place_of(shape, position).stage] += shape.microbatches * times.positions[position].total();
  }
  return *std::max_element(work.begin(), work.end());
}

double share_lost(double ideal, double taken) { return taken > 0 ? (taken - ideal) / taken : 0; }

}  // namespace

Simulation summarize(const PipelineSchedule& schedule, const PipelineTimes& times, Played played) {
  Simulation result;
  for (std::size_t stage = 0; stage < played.begin.size(); ++stage) {
    result.spans.push_back({played.begin[stage], played.end[stage]});
    result.max_stage_span = std::max(result.max_stage_span, result.spans.back().length());
  }
  const double first = *std::min_element(played.begin.begin(), played.begin.end());
  const double last = *std::max_element(played.end.begin(), played.end.end());
  result.makespan = last - first;
  result.ideal_time = busiest(schedule.shape, times);
  result.bubble = share_lost(result.ideal_time, result.max_stage_span);
  result.bubble_global = share_lost(result.ideal_time, result.makespan);
  result.events = std::move(played.events);
  return result;
}

Simulation simulate(const PipelineSchedule& schedule, const PipelineTimes& times) {
  Played played = play(schedule, times, true);
  if (!played.finished) {
    throw std::invalid_argument(
        fmt::format("{} on {} stages never ends: its actions wait for each other", schedule.name,
                    schedule.shape.stages));
  }
  return summarize(schedule, times, std::move(played));
}

}  // namespace tutti::schedule
