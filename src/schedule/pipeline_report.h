// What `tutti schedule 1f1b ...` says about a pipeline order: picture, bubble, peak and proof.
#pragma once

#include <optional>
#include <string>

#include "core/json.h"
#include "schedule/pipeline_schedule.h"
#include "schedule/pipeline_simulate.h"
#include "schedule/pipeline_verify.h"

namespace tutti::schedule {

struct PipelineReport {
  PipelineSchedule schedule;
  Verdict verdict;
  std::optional<Simulation> result;  // of a schedule that the verdict accepts
};

/// Proves and, if the proof holds, simulates. Throws std::invalid_argument as verify() and
/// simulate() do.
PipelineReport report(PipelineSchedule schedule, const PipelineTimes& times,
                      const VerifyOptions& options);

/// For the terminal: timeline, bubble, peak, slots. Needs a result.
std::string describe(const PipelineReport& report);

/// {"schedule","stages","microbatches","chunks","bubble","bubble_global","makespan",
/// "peak_activations":[by stage],"slots":{edge: n},"deadlock_free"}; numbers that need a result are
/// null without one, and "problems" holds the reasons.
core::Json to_json(const PipelineReport& report);

}  // namespace tutti::schedule
