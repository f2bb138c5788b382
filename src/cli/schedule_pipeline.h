// The half of `tutti schedule` that is about pipelines: one order, a user's own, or a table of
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::cli {

/// As typed. Numbers that were not typed are 0; with `file` they are taken from it.
struct SchedulePipelineOptions {
  std::string name;
  std::string file;  // a user's own order (CSV); then no name
  int stages = 0;
  int microbatches = 0;
  int chunks = 0;
  std::optional<int> slots;  // of every edge; default: the order's own
  std::string times;         // see schedule_times.h
  std::optional<double> memory;
  std::optional<double> kept;       // zb-auto: share of activations kept for weight gradients
  std::string svg;                  // file to write; empty: none
  std::vector<std::string> beside;  // "NAME" or "NAME:CHUNKS": further orders in the picture
  bool json = false;
};

/// The document for stdout, with its line break; writes the SVG if one is wanted. An order that is
/// refused gives, with `json`, its document (deadlock_free false, unknown numbers null, the reasons
/// in `problems`) and status 2, else throws. Throws core::ConfigError for what the user typed
/// wrong, core::RunError if a file cannot be read or written.
std::string schedule_pipeline(const SchedulePipelineOptions& options, int& status);

/// `--rows FILE.csv`: answers every row (see schedule/pipeline_rows.h), as JSON or as a table.
/// Throws as above.
std::string schedule_rows(const std::string& path, bool json);

}  // namespace tutti::cli
