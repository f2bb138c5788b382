// What every generator asks of its arguments.
#include "schedule/pipeline_check.h"

#include <fmt/format.h>

#include <stdexcept>

namespace tutti::schedule {
namespace {

constexpr double kLongest = 1e100;  // sums of times stay finite

}  // namespace

void check_shape(const PipelineShape& shape) {
  const auto at_least_one = [](const char* what, int value) {
    if (value < 1) throw std::invalid_argument(fmt::format("{} = {}: at least 1", what, value));
  };
  at_least_one("stages", shape.stages);
  at_least_one("microbatches", shape.microbatches);
  at_least_one("chunks", shape.chunks);
}

void check_times(const PipelineShape& shape, const PipelineTimes& times) {
  if (times.positions.size() != static_cast<std::size_t>(shape.positions())) {
    throw std::invalid_argument(fmt::format("times of {} positions for {} positions",
                                            times.positions.size(), shape.positions()));
  }
  const auto time = [](const char* what, double value) {
    if (!(value >= 0 && value <= kLongest)) {
      throw std::invalid_argument(
          fmt::format("{} time {:g}: a time is from 0 to {:g}", what, value, kLongest));
    }
  };
  time("transfer", times.transfer);
  for (const ActionTimes& position : times.positions) {
    time("forward", position.forward);
    time("input gradient", position.backward_input);
    time("weight gradient", position.backward_weight);
    if (position.total() <= 0) throw std::invalid_argument("a position that takes no time at all");
  }
}

}  // namespace tutti::schedule
