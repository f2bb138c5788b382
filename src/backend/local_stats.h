// ReduceStats of data that needed no reduction: a group of one, or a dry run.
#pragma once

#include <cstdint>

#include "comm/collective.h"
#include "tensor/torch.h"

namespace tutti::backend {

/// Fills `stats` for elements [begin, end) of the flat tensor, as the engine does for the part it
/// reduces: same blocks, same order of additions, so one rank and many give equal bits. Rank 0 is
/// the source of what is not finite.
void fill_local_stats(const at::Tensor& data, std::int64_t begin, std::int64_t end,
                      comm::ReduceStats& stats);

}  // namespace tutti::backend
