// GPipe: all forwards, then all backwards. The simplest order, and the one that holds the most
// activations.
#pragma once

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// Bubble time (p-1)(T + 2c), peak m micro-batches on every stage (p stages, m micro-batches, T = F
/// + B + W, c transfer). Throws std::invalid_argument unless stages >= 1 and microbatches >= 1.
PipelineSchedule gpipe(int stages, int microbatches);

}  // namespace tutti::schedule
