// GPipe: all forwards, then all backwards.
#include "schedule/gpipe.h"

#include "schedule/pipeline_check.h"

namespace tutti::schedule {

PipelineSchedule gpipe(int stages, int microbatches) {
  const PipelineShape shape{stages, microbatches, 1};
  check_shape(shape);
  std::vector<PipelineAction> list;
  for (int k = 0; k < microbatches; ++k) list.push_back({Kind::Forward, k});
  for (int k = 0; k < microbatches; ++k) list.push_back({Kind::Backward, k});
  return complete("gpipe", shape, std::vector(static_cast<std::size_t>(stages), list));
}

}  // namespace tutti::schedule
