// Texts of schedule/pipeline_report.h.
#include "schedule/pipeline_report.h"

#include <fmt/format.h>

#include "schedule/pipeline_draw.h"

namespace tutti::schedule {

PipelineReport report(PipelineSchedule schedule, const PipelineTimes& times,
                      const VerifyOptions& options) {
  PipelineReport result{std::move(schedule), {}, {}};
  result.verdict = verify(result.schedule, options);
  if (result.verdict.ok()) result.result = simulate(result.schedule, times);
  return result;
}

std::string describe(const PipelineReport& report) {
  const PipelineSchedule& schedule = report.schedule;
  const PipelineShape& shape = schedule.shape;
  const Simulation& result = report.result.value();
  std::string text = fmt::format("{}: {} stages, {} micro-batches, {} chunk{} per stage\n\n{}\n",
                                 schedule.name, shape.stages, shape.microbatches, shape.chunks,
                                 shape.chunks == 1 ? "" : "s", draw_text(schedule, result));
  text += fmt::format("bubble     {:.2f} % by stage span, {:.2f} % by makespan ({:g})\n",
                      100 * result.bubble, 100 * result.bubble_global, result.makespan);
  text += fmt::format("peak       {:g} micro-batches of activations on the fullest stage",
                      peak_activations(schedule));
  if (schedule.kept_for_weights < 1) {
    text += fmt::format(" ({:.0f} % of one stay between input and weight gradient)",
                        100 * schedule.kept_for_weights);
  }
  return text +
         fmt::format("\nproof      no deadlock with the order's slots; {} on every edge would do\n",
                     smallest_slots(schedule));
}

core::Json to_json(const PipelineReport& report) {
  const PipelineSchedule& schedule = report.schedule;
  const PipelineShape& shape = schedule.shape;
  const auto number = [&](double Simulation::*field) {
    return report.result ? core::Json((*report.result).*field) : core::Json();
  };
  core::Json json = {{"schedule", schedule.name},
                     {"stages", shape.stages},
                     {"microbatches", shape.microbatches},
                     {"chunks", shape.chunks},
                     {"bubble", number(&Simulation::bubble)},
                     {"bubble_global", number(&Simulation::bubble_global)},
                     {"makespan", number(&Simulation::makespan)}};
  json["peak_activations"] = core::Json::array();
  for (int stage = 0; stage < shape.stages; ++stage) {
    json["peak_activations"].push_back(peak_activations(schedule, stage));
  }
  json["slots"] = core::Json::object();
  for (int edge = 0; edge < num_edges(shape); ++edge) {
    if (edge_is_local(shape, edge)) continue;
    json["slots"][edge_name(shape, edge)] = schedule.slots[edge];
  }
  json["deadlock_free"] = report.verdict.deadlock_free;
  if (!report.verdict.ok()) json["problems"] = report.verdict.problems;
  return json;
}

}  // namespace tutti::schedule
