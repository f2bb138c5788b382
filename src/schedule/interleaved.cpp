// Interleaved 1F1B: the order of chunks, and how far forwards run ahead of backwards.
#include "schedule/interleaved.h"

#include <algorithm>

#include "schedule/pipeline_check.h"

namespace tutti::schedule {
namespace {

/// Micro-batches of the first turn, the largest. A turn shorter than p would leave stage 0 waiting
/// for the last stage in the middle of it, and the lists for each other; so what is left over is
/// spread over the turns.
int first_turn(const PipelineShape& shape) {
  const int turns = std::max(1, shape.microbatches / shape.stages);
  return (shape.microbatches + turns - 1) / turns;
}

/// The order in which every stage meets (micro-batch, chunk) in its forwards. Backwards mirror the
/// chunks.
std::vector<PipelineAction> forwards(const PipelineShape& shape) {
  std::vector<PipelineAction> order;
  order.reserve(static_cast<std::size_t>(shape.microbatches) * shape.chunks);
  const int turns = std::max(1, shape.microbatches / shape.stages);
  const int longer = shape.microbatches % turns;  // the first turns take one micro-batch more
  int begin = 0;
  for (int turn = 0; turn < turns; ++turn) {
    const int end = begin + shape.microbatches / turns + (turn < longer ? 1 : 0);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int k = begin; k < end; ++k) order.push_back({Kind::Forward, k, chunk});
    }
    begin = end;
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
                              static_cast<std::size_t>(chunks - 1) * first_turn(shape);
    for (std::size_t n = 0; n < std::min(ahead, total); ++n) list.push_back(order[n]);
    for (std::size_t n = 0; n < total; ++n) {
      if (n + ahead < total) list.push_back(order[n + ahead]);
      list.push_back({Kind::Backward, order[n].microbatch, chunks - 1 - order[n].chunk});
    }
  }
  return complete("interleaved", shape, compute);
}

}  // namespace tutti::schedule
