// 1F1B: warm-up, one forward and one backward in turn, cool-down.
#include "schedule/one_f_one_b.h"

#include <algorithm>

#include "schedule/pipeline_check.h"

namespace tutti::schedule {

PipelineSchedule one_f_one_b(int stages, int microbatches) {
  const PipelineShape shape{stages, microbatches, 1};
  check_shape(shape);
  std::vector<std::vector<PipelineAction>> compute(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<PipelineAction>& list = compute[stage];
    const int ahead = std::min(stages - 1 - stage, microbatches);
    for (int k = 0; k < ahead; ++k) list.push_back({Kind::Forward, k});
    for (int k = 0; k < microbatches; ++k) {
      if (k + ahead < microbatches) list.push_back({Kind::Forward, k + ahead});
      list.push_back({Kind::Backward, k});
    }
  }
  return complete("1f1b", shape, compute);
}

}  // namespace tutti::schedule
