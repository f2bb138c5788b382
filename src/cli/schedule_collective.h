// `tutti schedule all-reduce --algorithm ring --ranks N`: the half of `tutti schedule` that is
// about collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::cli {

/// As typed; names are checked by schedule_collective().
struct ScheduleCollectiveOptions {
  std::string operation = "all-reduce";
  std::string algorithm = "ring";
  std::string between = "ring";  // hierarchical
  int ranks = 1;
  std::optional<std::int64_t> elements;  // default: four per rank, enough to see the pattern
  std::vector<std::int64_t> counts = {};
  int root = 0;
  int group = 0;  // hierarchical
  int chunks = 0;
  std::string svg;  // file to write; empty: none
  bool json = false;
};

/// True if `name` is a collective: then the command is this one, otherwise a pipeline order's.
bool is_collective(const std::string& name);

/// The document for stdout, with its line break; writes the SVG first if one is wanted. `status`:
/// 0, or 1 if the proof fails. Throws core::ConfigError for what the user typed wrong,
/// core::RunError if the file cannot be written.
std::string schedule_collective(const ScheduleCollectiveOptions& options, int& status);

}  // namespace tutti::cli
