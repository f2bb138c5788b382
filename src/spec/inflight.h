// How many micro-batches' activations a pipeline stage holds at its fullest, in closed form. The
// planner asks this 100,000 times a second; schedule's own objects are the proof (memory_test).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti::spec {

/// Letters as in schedule: p stages, m micro-batches of a step, v chunks per stage.
struct PipelineQuestion {
  std::string_view schedule = "1f1b";  // "none" with one stage
  std::int64_t stages = 1;
  std::int64_t microbatches = 1;
  std::int64_t chunks = 1;
  /// Share of a micro-batch that waits for its weight gradient after the input gradient has run;
  /// used by the searched orders zb-1p and zb-2p.
  double kept_for_weights = 1;
};

/// In micro-batches of the whole stage (a chunk counts 1/v). Empty: no closed form is known. The
/// forms are exact where p divides m; with uneven turns `interleaved` may hold more.
std::optional<double> peak_inflight(const PipelineQuestion& question, std::int64_t stage);

}  // namespace tutti::spec
