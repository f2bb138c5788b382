// Why a schedule never ends: follows who waits for whom until the circle closes.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/pipeline_play.h"
#include "schedule/pipeline_verify.h"

namespace tutti::schedule {
namespace {

/// What a stopped stage waits for.
struct Wait {
  int stage = 0;          // who waits
  std::size_t index = 0;  // at which action
  int other = 0;          // for whom
  std::size_t until = 0;  // and which of their actions
  bool for_slot = false;
};

/// Number of actions before `end` that use `edge` with this kind.
int count_before(const PipelineSchedule& schedule, int stage, std::size_t end,
                 const PipelineAction& like) {
  const auto& list = schedule.actions[stage];
  return static_cast<int>(
      std::count_if(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(end),
                    [&](const PipelineAction& action) {
                      return action.kind == like.kind && action.chunk == like.chunk;
                    }));
}

/// Index of the n-th (from 0) action of the list that `matches`; the list's size if there is none.
template <typename Matches>
std::size_t nth(const std::vector<PipelineAction>& list, int n, Matches matches) {
  std::size_t index = 0;
  for (; index < list.size(); ++index) {
    if (matches(list[index]) && n-- == 0) break;
  }
  return index;
}

Wait wait_of(const PipelineSchedule& schedule, int stage, std::size_t index) {
  const PipelineAction& action = schedule.actions[stage][index];
  const int edge = edge_of(schedule.shape, stage, action);
  const int n = count_before(schedule, stage, index, action);
  if (action.kind == Kind::RecvForward || action.kind == Kind::RecvBackward) {
    const Place from = edge_sender(schedule.shape, edge);
    const Kind send = action.kind == Kind::RecvForward ? Kind::SendForward : Kind::SendBackward;
    const std::size_t until =
        nth(schedule.actions[from.stage], n, [&](const PipelineAction& candidate) {
          return candidate.kind == send && candidate.chunk == from.chunk;
        });
    return {stage, index, from.stage, until, false};
  }
  const Place to = edge_receiver(schedule.shape, edge);
  const std::size_t until =
      nth(schedule.actions[to.stage], std::max(0, n - schedule.slots[edge]),
          [&](const PipelineAction& candidate) {
            return candidate.chunk == to.chunk &&
                   (candidate.kind == Kind::BackwardWeight || candidate.kind == Kind::Backward);
          });
  return {stage, index, to.stage, until, true};
}

std::string sentence(const PipelineSchedule& schedule, const VerifyOptions& options,
                     const Wait& wait) {
  if (wait.until >= schedule.actions[wait.other].size()) {
    return fmt::format("{} waits for stage {}, which never does its part",
                       describe_action(schedule, options, wait.stage, wait.index), wait.other);
  }
  return fmt::format("{} waits for {}{}",
                     describe_action(schedule, options, wait.stage, wait.index),
                     wait.for_slot ? "a slot that is free after " : "",
                     describe_action(schedule, options, wait.other, wait.until));
}

}  // namespace

std::string explain_deadlock(const PipelineSchedule& schedule, const VerifyOptions& options) {
  const Played played = play(schedule, even_times(schedule.shape, {0, 0, 0}));
  if (played.finished) return {};
  int stage = 0;
  while (played.next[stage] == schedule.actions[stage].size()) ++stage;
  std::vector<Wait> chain;
  const auto closes = [&](int next) {
    return std::find_if(chain.begin(), chain.end(),
                        [&](const Wait& wait) { return wait.stage == next; });
  };
  // Every stage that others wait for is stopped itself, so the chain must come back to one it has
  // seen.
  while (closes(stage) == chain.end() && played.next[stage] < schedule.actions[stage].size()) {
    chain.push_back(wait_of(schedule, stage, played.next[stage]));
    stage = chain.back().other;
  }
  std::vector<std::string> sentences;
  for (auto wait = closes(stage); wait != chain.end(); ++wait) {
    sentences.push_back(sentence(schedule, options, *wait));
  }
  return fmt::format("deadlock: {}, which comes later than what its stage waits at.",
                     fmt::join(sentences, "; "));
}

}  // namespace tutti::schedule
