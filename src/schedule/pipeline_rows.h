// A table of pipeline settings, each generated, proven and simulated: the body of `tutti schedule
// --rows`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::schedule {

/// The answer to one row.
struct PipelineRow {
  std::string id;
  double bubble = 0;         // by stage span
  double bubble_global = 0;  // by makespan
  double peak = 0;           // fullest stage, in micro-batches of the whole stage
};

/// Reads CSV with a header that names at least id, schedule, p, m, tf, tb, tw (v and tcomm default
/// to 1 and 0; other columns are ignored; fields may be quoted) and answers each row. zb-1p and
/// zb-2p are zb-auto with a memory of p and 2p. Throws core::ConfigError naming every line that
/// cannot be answered, and why.
std::vector<PipelineRow> answer_rows(std::string_view csv);

}  // namespace tutti::schedule
