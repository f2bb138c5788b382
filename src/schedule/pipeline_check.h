// What every generator asks of its arguments.
#pragma once

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// Throws std::invalid_argument, naming the value, unless stages, micro-batches and chunks are at
/// least 1.
void check_shape(const PipelineShape& shape);

/// Throws std::invalid_argument unless every time is finite and not negative, there is one entry
/// per position, and forward and backward take some time.
void check_times(const PipelineShape& shape, const PipelineTimes& times);

}  // namespace tutti::schedule
