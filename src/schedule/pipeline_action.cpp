// Names of actions, the order of a single stage, and the order in which chunks complete.
#include "schedule/pipeline_action.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::schedule {

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::Forward:
      return "F";
    case Kind::BackwardInput:
      return "I";
    case Kind::BackwardWeight:
      return "W";
    case Kind::Backward:
      return "B";
    case Kind::SendForward:
      return "SF";
    case Kind::RecvForward:
      return "RF";
    case Kind::SendBackward:
      return "SB";
    case Kind::RecvBackward:
      return "RB";
  }
  throw std::invalid_argument(
      fmt::format("no pipeline action has kind {}", static_cast<int>(kind)));
}

std::string name(const PipelineAction& action, int chunks) {
  if (chunks > 1) return fmt::format("{}{}.{}", name(action.kind), action.microbatch, action.chunk);
  return fmt::format("{}{}", name(action.kind), action.microbatch);
}

std::vector<PipelineAction> one_stage(int microbatches) {
  if (microbatches < 1) {
    throw std::invalid_argument(
        fmt::format("microbatches = {}: a step has at least 1", microbatches));
  }
  std::vector<PipelineAction> actions;
  actions.reserve(2 * static_cast<std::size_t>(microbatches));
  for (int k = 0; k < microbatches; ++k) {
    actions.push_back({Kind::Forward, k});
    actions.push_back({Kind::Backward, k});
  }
  return actions;
}

std::vector<int> completion_order(const std::vector<PipelineAction>& actions) {
  std::vector<int> order;  // latest first while we walk backwards: the first sight of a chunk is
                           // its last gradient
  for (auto action = actions.rbegin(); action != actions.rend(); ++action) {
    const bool weight = action->kind == Kind::BackwardWeight || action->kind == Kind::Backward;
    if (weight && std::find(order.begin(), order.end(), action->chunk) == order.end()) {
      order.push_back(action->chunk);
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace tutti::schedule
