// Positions, edges and the sends and receives that turn compute lists into a schedule.
#include "schedule/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::schedule {

int position_of(const PipelineShape& shape, Place place) {
  const bool turned = shape.placement == Placement::V && place.chunk % 2 == 1;
  return place.chunk * shape.stages + (turned ? shape.stages - 1 - place.stage : place.stage);
}

Place place_of(const PipelineShape& shape, int position) {
  const int chunk = position / shape.stages;
  const int along = position % shape.stages;
  const bool turned = shape.placement == Placement::V && chunk % 2 == 1;
  return {turned ? shape.stages - 1 - along : along, chunk};
}

int num_edges(const PipelineShape& shape) { return 2 * (shape.positions() - 1); }

Place edge_sender(const PipelineShape& shape, int edge) {
  return place_of(shape, edge / 2 + edge % 2);
}

Place edge_receiver(const PipelineShape& shape, int edge) {
  return place_of(shape, edge / 2 + 1 - edge % 2);
}

bool edge_is_local(const PipelineShape& shape, int edge) {
  return edge_sender(shape, edge).stage == edge_receiver(shape, edge).stage;
}

std::string edge_name(const PipelineShape& shape, int edge) {
  const Place from = edge_sender(shape, edge);
  const Place to = edge_receiver(shape, edge);
  if (shape.chunks == 1) return fmt::format("{}>{}", from.stage, to.stage);
  return fmt::format("{}.{}>{}.{}", from.stage, from.chunk, to.stage, to.chunk);
}

int edge_of(const PipelineShape& shape, int stage, const PipelineAction& action) {
  const auto refuse = [&](const char* why) {
    return std::invalid_argument(
        fmt::format("{} of stage {}: {}", name(action, shape.chunks), stage, why));
  };
  if (is_compute(action.kind)) throw refuse("only sends and receives have an edge");
  if (action.chunk < 0 || action.chunk >= shape.chunks) throw refuse("the stage has no such chunk");
  const int position = position_of(shape, {stage, action.chunk});
  const bool backward = action.kind == Kind::SendBackward || action.kind == Kind::RecvBackward;
  const bool below = action.kind == Kind::RecvForward || action.kind == Kind::SendBackward;
  const int border = below ? position - 1 : position;
  if (border < 0) throw refuse("the model's first position has none before it");
  if (border == shape.positions() - 1) throw refuse("the model's last position has none after it");
  return 2 * border + (backward ? 1 : 0);
}

double ActionTimes::of(Kind kind) const {
  switch (kind) {
    case Kind::Forward:
      return forward;
    case Kind::BackwardInput:
      return backward_input;
    case Kind::BackwardWeight:
      return backward_weight;
    case Kind::Backward:
      return backward_input + backward_weight;
    default:
      return 0;
  }
}

PipelineTimes even_times(const PipelineShape& shape, const ActionTimes& stage, double transfer) {
  return stage_times(shape, std::vector<ActionTimes>(static_cast<std::size_t>(shape.stages), stage),
                     transfer);
}

PipelineTimes stage_times(const PipelineShape& shape, const std::vector<ActionTimes>& stages,
                          double transfer) {
  if (stages.size() != static_cast<std::size_t>(shape.stages)) {
    throw std::invalid_argument(
        fmt::format("times of {} stages for {} stages", stages.size(), shape.stages));
  }
  PipelineTimes times;
  times.transfer = transfer;
  for (int position = 0; position < shape.positions(); ++position) {
    const ActionTimes& whole = stages[place_of(shape, position).stage];
    times.positions.push_back({whole.forward / shape.chunks, whole.backward_input / shape.chunks,
                               whole.backward_weight / shape.chunks});
  }
  return times;
}

int peak_inflight(const std::vector<PipelineAction>& actions, int chunk) {
  int held = 0;
  int most = 0;
  for (const PipelineAction& action : actions) {
    if (action.chunk != chunk) continue;
    if (action.kind == Kind::Forward) most = std::max(most, ++held);
    if (action.kind == Kind::BackwardWeight || action.kind == Kind::Backward) --held;
  }
  return most;
}

double peak_activations(const PipelineSchedule& schedule, int stage) {
  int full = 0;     // forward done
  int waiting = 0;  // input gradient done, weight gradient not
  double most = 0;
  for (const PipelineAction& action : schedule.actions.at(stage)) {
    if (action.kind == Kind::Forward) ++full;
    if (action.kind == Kind::Backward) --full;
    if (action.kind == Kind::BackwardInput) {
      --full;
      ++waiting;
    }
    if (action.kind == Kind::BackwardWeight) --waiting;
    most = std::max(most, full + schedule.kept_for_weights * waiting);
  }
  return most / schedule.shape.chunks;
}

double peak_activations(const PipelineSchedule& schedule) {
  double most = 0;
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    most = std::max(most, peak_activations(schedule, stage));
  }
  return most;
}

std::vector<int> default_slots(const PipelineShape& shape,
                               const std::vector<std::vector<PipelineAction>>& actions) {
  std::vector<int> slots(static_cast<std::size_t>(std::max(num_edges(shape), 0)), 0);
  for (int edge = 0; edge < num_edges(shape); ++edge) {
    if (edge_is_local(shape, edge)) continue;
    const Place to = edge_receiver(shape, edge);
    slots[edge] = std::min(peak_inflight(actions[to.stage], to.chunk) + 1, shape.microbatches);
  }
  return slots;
}

namespace {

/// One stage's list with its transfers.
std::vector<PipelineAction> with_transfers(const PipelineShape& shape, int stage,
                                           const std::vector<PipelineAction>& compute) {
  struct Neighbours {
    bool before, after;  // another stage holds the position before or after this chunk's
  };
  std::vector<Neighbours> chunks;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const int position = position_of(shape, {stage, chunk});
    chunks.push_back({position > 0 && !edge_is_local(shape, 2 * (position - 1)),
                      position + 1 < shape.positions() && !edge_is_local(shape, 2 * position)});
  }
  std::vector<PipelineAction> actions;
  actions.reserve(3 * compute.size());
  for (const PipelineAction& action : compute) {
    const auto [kind, microbatch, chunk] = action;
    const Neighbours has = chunks.at(chunk);
    const bool backward = kind == Kind::BackwardInput || kind == Kind::Backward;
    if (kind == Kind::Forward && has.before)
      actions.push_back({Kind::RecvForward, microbatch, chunk});
    if (backward && has.after) actions.push_back({Kind::RecvBackward, microbatch, chunk});
    actions.push_back(action);
    if (kind == Kind::Forward && has.after)
      actions.push_back({Kind::SendForward, microbatch, chunk});
    if (backward && has.before) actions.push_back({Kind::SendBackward, microbatch, chunk});
  }
  return actions;
}

}  // namespace

PipelineSchedule complete(std::string name, const PipelineShape& shape,
                          const std::vector<std::vector<PipelineAction>>& compute) {
  if (compute.size() != static_cast<std::size_t>(shape.stages)) {
    throw std::invalid_argument(
        fmt::format("{} lists for {} stages", compute.size(), shape.stages));
  }
  PipelineSchedule schedule{std::move(name), shape, {}, {}};
  for (int stage = 0; stage < shape.stages; ++stage) {
    schedule.actions.push_back(with_transfers(shape, stage, compute[stage]));
  }
  schedule.slots = default_slots(shape, schedule.actions);
  return schedule;
}

}  // namespace tutti::schedule
