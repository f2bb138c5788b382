// Test only: a second opinion on pipeline schedules that shares no code with pipeline_play. Actions
// are found by name in a map, and times by sweeping over all actions until nothing changes;
// quadratic, for small cases.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule::oracle {

/// Ends of all actions, [stage][action]; absent: the action never happens.
using Ends = std::vector<std::vector<std::optional<double>>>;

inline Ends sweep(const PipelineSchedule& schedule, const PipelineTimes& times) {
  const PipelineShape& shape = schedule.shape;
  using Key = std::tuple<int, Kind, int, int>;  // stage, kind, micro-batch, chunk
  std::map<Key, std::size_t> at;
  for (int stage = 0; stage < shape.stages; ++stage) {
    for (std::size_t i = 0; i < schedule.actions[stage].size(); ++i) {
      const auto& a = schedule.actions[stage][i];
      at[{stage, a.kind, a.microbatch, a.chunk}] = i;
    }
  }
  // Position along the model by walking it, chunk by chunk.
  std::map<std::pair<int, int>, int> position;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int n = 0; n < shape.stages; ++n) {
      const bool back = shape.placement == Placement::V && chunk % 2 == 1;
      position[{back ? shape.stages - 1 - n : n, chunk}] = chunk * shape.stages + n;
    }
  }
  const auto who = [&](int wanted) {
    for (const auto& [place, number] : position) {
      if (number == wanted) return place;
    }
    return std::pair{-1, -1};
  };
  Ends ends(shape.stages);
  for (int stage = 0; stage < shape.stages; ++stage)
    ends[stage].resize(schedule.actions[stage].size());

  const auto end_of = [&](int stage, std::size_t i) -> std::optional<double> {
    const auto& list = schedule.actions[stage];
    const PipelineAction a = list[i];
    double start = 0;
    if (i > 0) {
      if (!ends[stage][i - 1]) return {};
      start = *ends[stage][i - 1];
    }
    const int here = position[{stage, a.chunk}];
    if (a.kind == Kind::RecvForward || a.kind == Kind::RecvBackward) {
      const bool forward = a.kind == Kind::RecvForward;
      const auto [other, chunk] = who(forward ? here - 1 : here + 1);
      const auto send =
          at.find({other, forward ? Kind::SendForward : Kind::SendBackward, a.microbatch, chunk});
      if (send == at.end() || !ends[other][send->second]) return {};
      return std::max(start, *ends[other][send->second] + times.transfer);
    }
    if (a.kind == Kind::SendForward || a.kind == Kind::SendBackward) {
      const bool forward = a.kind == Kind::SendForward;
      const auto [other, chunk] = who(forward ? here + 1 : here - 1);
      const int slots = schedule.slots[forward ? 2 * here : 2 * here - 1];
      int sent = 0;  // messages before this one
      for (std::size_t k = 0; k < i; ++k)
        sent += list[k].kind == a.kind && list[k].chunk == a.chunk;
      if (sent < slots) return start;
      int returned = -1;
      for (std::size_t k = 0; k < schedule.actions[other].size(); ++k) {
        const auto& b = schedule.actions[other][k];
        if (b.chunk != chunk || (b.kind != Kind::BackwardWeight && b.kind != Kind::Backward))
          continue;
        if (++returned != sent - slots) continue;
        if (!ends[other][k]) return {};
        return std::max(start, *ends[other][k]);
      }
      return {};
    }
    const ActionTimes& t = times.positions[here];
    const double busy = a.kind == Kind::Forward          ? t.forward
                        : a.kind == Kind::BackwardInput  ? t.backward_input
                        : a.kind == Kind::BackwardWeight ? t.backward_weight
                                                         : t.backward_input + t.backward_weight;
    return start + busy;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (std::size_t i = 0; i < ends[stage].size(); ++i) {
        if (ends[stage][i]) continue;
        ends[stage][i] = end_of(stage, i);
        if (!ends[stage][i]) break;
        changed = true;
      }
    }
  }
  return ends;
}

inline bool finished(const Ends& ends) {
  for (const auto& stage : ends) {
    for (const auto& end : stage) {
      if (!end) return false;
    }
  }
  return true;
}

/// First compute start to last compute end.
inline double makespan(const PipelineSchedule& schedule, const PipelineTimes& times,
                       const Ends& ends) {
  double first = 1e300;
  double last = 0;
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    for (std::size_t i = 0; i < ends[stage].size(); ++i) {
      const auto& a = schedule.actions[stage][i];
      if (a.kind > Kind::Backward) continue;
      const int position = position_of(schedule.shape, {stage, a.chunk});
      first = std::min(first, *ends[stage][i] - times.positions[position].of(a.kind));
      last = std::max(last, *ends[stage][i]);
    }
  }
  return last - first;
}

}  // namespace tutti::schedule::oracle
