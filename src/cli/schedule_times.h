// `--times` of `tutti schedule`: how long each stage takes.
#pragma once

#include <string>
#include <vector>

#include "schedule/pipeline_schedule.h"

namespace tutti::cli {

/// Times of a pipeline's stages, in any unit.
struct StageTimes {
  std::vector<schedule::ActionTimes> stages;  // one for all, or one each
  double transfer = 0;
};

/// "F,B,W[,COMM]", or one such group per stage, separated by ';'; the transfer is the largest COMM.
/// Empty: F = B = W = 1 and free transfers. Throws core::ConfigError.
StageTimes parse_times(const std::string& text);

/// One group becomes one per stage. Throws core::ConfigError unless there is one, or one per stage.
void spread_over(StageTimes& times, int stages);

/// The parts of `text` between separators: at least one, possibly empty.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace tutti::cli
