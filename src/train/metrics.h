// What a run tells machines: one line per step in metrics.jsonl, and summary.json at the end.
// Units are in the names; what is unknown is null, never 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace tutti::train {

/// Memory of this process, bytes; from /proc/self/smaps_rollup (about a millisecond per GiB: not
/// for every step).
struct ProcessMemory {
  std::int64_t pss_bytes = 0;
  std::int64_t rss_bytes = 0;
  std::int64_t shared_bytes = 0;  // this process's share of pages that others map too
};
ProcessMemory process_memory();

struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> valid_loss;
  double grad_norm = 0;
  double lr = 0;
  std::int64_t tokens = 0;  // of this step, all ranks
  double step_s = 0;
  double exposed_comm_s = 0;
  std::optional<double> mfu;  // model FLOPs as a share of the peak; spec::flops_conventions
  std::optional<double> hfu;  // and with what recompute runs again
  std::optional<ProcessMemory> memory;
};
core::Json to_json(const StepMetrics& metrics);

/// Drops the lines of steps after `step` from a metrics.jsonl: a run that goes on from a checkpoint
/// writes them again. Nothing happens if the file is not there. Throws core::RunError.
void drop_steps_after(const std::filesystem::path& metrics_file, std::int64_t step);

/// The figures of a whole run, collected step by step.
class RunFigures {
 public:
  void add(const StepMetrics& metrics);
  void add_memory(const ProcessMemory& memory);

  [[nodiscard]] std::int64_t steps() const { return static_cast<std::int64_t>(step_s_.size()); }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::optional<double> first_loss() const { return first_loss_; }
  [[nodiscard]] std::optional<double> final_loss() const { return final_loss_; }
  /// Medians over the steps after the first; empty before the second step.
  [[nodiscard]] std::optional<double> step_s() const;
  [[nodiscard]] std::optional<double> tokens_per_s() const;
  [[nodiscard]] std::optional<double> mfu() const;
  [[nodiscard]] std::optional<double> exposed_comm_share() const;
  [[nodiscard]] const ProcessMemory& peak_memory() const { return peak_; }

 private:
  std::vector<double> step_s_, tokens_per_s_, mfu_;
  double exposed_s_ = 0, total_s_ = 0;
  std::int64_t tokens_ = 0;
  std::optional<double> first_loss_, final_loss_;
  ProcessMemory peak_;
};

}  // namespace tutti::train
