// What a person sees while a run goes on: a line that renews itself on a terminal, plain lines
// elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "train/metrics.h"

namespace tutti::train {

/// Writes to stderr. Rank 0 only: the others make none.
class ProgressLine {
 public:
  /// `steps`: last step of the run; `done`: steps already done when it began. A terminal gets a
  /// line about 5 times a second, anything else a line every 2 % of the steps.
  ProgressLine(std::int64_t steps, std::int64_t done);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void step(const StepMetrics& metrics);
  /// A line of its own above the progress ("validation loss 1.62 ...").
  void note(const std::string& text);

 private:
  std::string text(const StepMetrics& metrics) const;

  std::int64_t steps_, done_;
  bool terminal_;
  bool open_ = false;  // a renewed line stands without its newline
  core::Stopwatch watch_;
  core::Seconds last_{-1};
  double tokens_per_s_ = 0;  // smoothed
};

}  // namespace tutti::train
