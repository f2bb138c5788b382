// The proof that a pipeline order works before anything runs: complete, in order, within memory,
// and free of deadlock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// What to hold the schedule against.
struct VerifyOptions {
  std::optional<double>
      memory;  // activations per stage, in micro-batches of the whole stage (see peak_activations)
  /// Line of the user's file per [stage][action]; named in refusals instead of the action's number.
  /// Not owned.
  const std::vector<std::vector<int>>* lines = nullptr;
};

struct Verdict {
  std::vector<std::string>
      problems;  // each a sentence that names the actions; at most kMaxProblems of one kind
  bool deadlock_free =
      false;  // under exactly the schedule's slots; false if the lists are already wrong
  [[nodiscard]] bool ok() const { return problems.empty(); }
};

inline constexpr std::size_t kMaxProblems = 5;

/// Checks that
///   each (micro-batch, chunk) has one forward and either one Backward or one input and then one
///   weight gradient, in order; a chunk's input is there (received, or made by this stage before)
///   when it is used, and every output is sent; the n-th send of each edge carries the micro-batch
///   of the n-th receive (so their sizes agree too); no stage holds more activations than the
///   limit; no actions wait for each other under the schedule's slots.
/// Cost: a few visits per action. Throws std::invalid_argument if lists or slots are not one per
/// stage and edge.
Verdict verify(const PipelineSchedule& schedule, const VerifyOptions& options = {});

/// The smallest number of slots that lets the lists finish if every edge gets it; 0 if none does.
/// Precondition: the lists are complete (verify names what is not).
int smallest_slots(const PipelineSchedule& schedule);

/// Two actions that wait for each other, or the circle of waiting stages, in words; empty if the
/// lists finish.
std::string explain_deadlock(const PipelineSchedule& schedule, const VerifyOptions& options = {});

/// "action 5 (F3) of stage 1", or "line 17 (F3 of stage 1)" where the options have lines.
std::string describe_action(const PipelineSchedule& schedule, const VerifyOptions& options,
                            int stage, std::size_t index);

}  // namespace tutti::schedule
