// 1F1B: after a short warm-up every stage alternates forward and backward, so memory does not grow
// with the micro-batches.
#pragma once

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// Stage i runs p-1-i forwards ahead, then one forward and one backward in turn, then the backwards
/// that are left. Bubble time (p-1)T without transfers, as GPipe; peak min(m, p-i) micro-batches on
/// stage i. Throws std::invalid_argument unless stages >= 1 and microbatches >= 1.
PipelineSchedule one_f_one_b(int stages, int microbatches);

}  // namespace tutti::schedule
