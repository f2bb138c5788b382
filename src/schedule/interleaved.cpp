// Interleaved 1F1B: the order of chunks, and how far forwards run ahead of backwards.
#include "schedule/interleaved.h"

#include <algorithm>

#include "schedule/pipeline_check.h"

namespace tutti::schedule {
namespace {

/// The order in which every stage meets (micro-batch, chunk) in its forwards. Backwards mirror the
/// chunks.
std::vector<PipelineAction> forwards(const PipelineShape& shape) {
  std::vector<PipelineAction> order;
  order.reserve(static_cast<std::size_t>(shape.microbatches) * shape.chunks);
  for (int turn = 0; turn < shape.microbatches; turn += shape.stages) {
    const int end = std::min(turn + shape.stages, shape.microbatches);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int k = turn; k < end; ++k) order.push_back({Kind::Forward, k, chunk});
    }
  }
  return order;
}

}  // namespace

PipelineSchedule interleaved(int stages, int microbatches, int chunks) {
  const PipelineShape shape{stages, microbatches, chunks};
  check_shape(shape);
  const std::vector<PipelineAction> order = forwards(shape);
  const std::size_t total = order.size();
  std::vector<std::vector<PipelineAction>> compute(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<PipelineAction>& list = compute[stage];
    list.reserve(2 * total);
    const std::size_t ahead = 2 * static_cast<std::size_t>(stages - 1 - stage) +
                              static_cast<std::size_t>(chunks - 1) * stages;
    for (std::size_t n = 0; n < std::min(ahead, total); ++n) list.push_back(order[n]);
    for (std::size_t n = 0; n < total; ++n) {
      if (n + ahead < total) list.push_back(order[n + ahead]);
      list.push_back({Kind::Backward, order[n].microbatch, chunks - 1 - order[n].chunk});
    }
  }
  return complete("interleaved", shape, compute);
}

}  // namespace tutti::schedule
