// Interleaved 1F1B: every stage holds several chunks, so the pipeline fills chunk by chunk and the
// bubble shrinks by 1/chunks.
#pragma once

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// Looped chunks. Micro-batches go in turns of p: each turn runs through chunk 0, then chunk 1, ...
/// (backwards: from the last). Stage i runs 2(p-1-i) + (v-1)p chunk forwards ahead, then one
/// forward and one backward in turn. Where p does not divide m the turns are larger, as even as
/// they can be (m < p: one turn of m); that works, with a larger bubble and peak. Bubble time
/// (p-1)T/v where p divides m and transfers are free; peak min(mv, pv+p-1)/v on stage 0. Throws
/// std::invalid_argument unless stages, microbatches, chunks >= 1.
PipelineSchedule interleaved(int stages, int microbatches, int chunks);

}  // namespace tutti::schedule
