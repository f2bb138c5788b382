// Zero-bubble orders made by hand: the weight gradient is split from the backward pass and fills
// the gaps.
#pragma once

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

// p stages, m micro-batches, F, B, W forward, input gradient, weight gradient of one micro-batch on
// one stage, T their sum. All throw std::invalid_argument unless stages >= 1 and microbatches >= 1.

/// 1F1B's order with the weight gradients of stage i running i micro-batches late.
/// Bubble time (p-1)(F + B - W) without transfers for W <= F, B; peak min(m, p), as 1F1B's first
/// stage.
PipelineSchedule zb_h1(int stages, int microbatches);

/// 2(p-i)-1 forwards ahead on stage i, weight gradients 2i micro-batches late.
/// Bubble time (p-1)(F + B - 2W) without transfers for m >= 2p and W <= F, B, by stage span: stages
/// end staggered, so the makespan is larger. Peak min(m, 2p-1).
PipelineSchedule zb_h2(int stages, int microbatches);

/// Two chunks in a V: the first stage holds the model's first and last chunk. Warm-up of 2p-1 chunk
/// forwards, then groups of forward, input gradient and weight gradient; at the end input gradients
/// first and weight gradients where they fit. No bubble by stage span for F = B = W, m >= 2p and
/// free transfers; peak min(m, p).
PipelineSchedule zb_v(int stages, int microbatches);

}  // namespace tutti::schedule
