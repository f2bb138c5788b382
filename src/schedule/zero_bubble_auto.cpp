// The search of zb-auto: how many forwards run ahead on each stage, then which gaps weight
// gradients fill.
#include "schedule/zero_bubble_auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "schedule/pipeline_check.h"
#include "schedule/pipeline_simulate.h"
#include "schedule/zero_bubble.h"

namespace tutti::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Times are sums of few doubles: far above their rounding, far below an action.
constexpr double kTiny = 1e-9;

/// One point of the grid.
struct Policy {
  double round_up = 0;  // another forward before the first gradient if more than this share of it
                        // fits; 1: only if all does
  double patience = 0;  // a gap below this share of a weight gradient stays empty ...
  bool level = false;   // ... unless the stage would have waited more than any other
};

struct Search {
  PipelineShape shape;
  const PipelineTimes& times;
  SearchLimits limits;
};

/// Forwards that each stage runs before its first input gradient. Strictly decreasing along the
/// stages as far as memory allows: a stage that runs no further ahead than the next one would leave
/// it waiting in each round.
std::vector<int> forwards_ahead(const Search& search, const Policy& policy) {
  const int stages = search.shape.stages;
  const auto cap = static_cast<int>(std::floor(search.limits.memory + kTiny));
  std::vector<double> start(stages);    // of the stage's first forward
  std::vector<double> spacing(stages);  // of its forwards: the slowest stage so far sets it
  double clock = 0;
  double slowest = 0;
  for (int stage = 0; stage < stages; ++stage) {
    start[stage] = clock;
    slowest = std::max(slowest, search.times.positions[stage].forward);
    spacing[stage] = slowest;
    clock += search.times.positions[stage].forward + search.times.transfer;
  }
  std::vector<int> ahead(stages);
  double gradient = 0;  // when the first one reaches the stage
  for (int stage = stages - 1; stage >= 0; --stage) {
    int count = 1;
    if (stage + 1 < stages && spacing[stage] > 0) {
      const double fit = (gradient - start[stage]) / spacing[stage];
      count = static_cast<int>(std::floor(fit + kTiny));
      if (fit - count > policy.round_up + kTiny) ++count;
      count = std::max(count, ahead[stage + 1] + 1);
    }
    ahead[stage] = std::clamp(std::min(count, cap - stage), 1, search.shape.microbatches);
    gradient = std::max(gradient, start[stage] + ahead[stage] * spacing[stage]) +
               search.times.positions[stage].backward_input + search.times.transfer;
  }
  return ahead;
}

/// The stage whose next action starts first, the lowest of several: a tournament, so that a change
/// of one stage costs log(stages) comparisons.
class Earliest {
 public:
  explicit Earliest(int stages) : leaves_(std::bit_ceil(static_cast<std::size_t>(stages))) {
    starts_.assign(2 * leaves_, kNever);
  }
  void set(int stage, double start) {
    std::size_t node = leaves_ + static_cast<std::size_t>(stage);
    starts_[node] = start;
    for (node /= 2; node > 0; node /= 2) {
      starts_[node] = std::min(starts_[2 * node], starts_[2 * node + 1]);
    }
  }
  [[nodiscard]] int stage() const {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (starts_[2 * node] == starts_[node] ? 0 : 1);
    return static_cast<int>(node - leaves_);
  }

 private:
  std::size_t leaves_;
  std::vector<double> starts_;  // a heap: the winner at 1, the children of n at 2n and 2n + 1
};

/// Builds one order by playing it: always the stage whose next action starts first.
class Builder {
 public:
  Builder(const Search& search, const Policy& policy)
      : search_(search),
        policy_(policy),
        ahead_(forwards_ahead(search, policy)),
        stages_(search.shape.stages),
        next_(search.shape.stages),
        earliest_(search.shape.stages),
        lists_(search.shape.stages) {
    for (Stage& stage : stages_) {
      stage.input.assign(search.shape.microbatches, kNever);
      stage.gradient.assign(search.shape.microbatches, kNever);
    }
    std::fill(stages_[0].input.begin(), stages_[0].input.end(), 0.0);
  }

  /// Nothing if the policy's order runs into its memory limit with nothing left to free.
  std::optional<std::vector<std::vector<PipelineAction>>> build() {
    const int stages = search_.shape.stages;
    for (int stage = 0; stage < stages; ++stage) choose_next(stage);
    for (long left = 3L * stages * search_.shape.microbatches; left > 0; --left) {
      const int first = earliest_.stage();
      if (next_[first].start == kNever) return std::nullopt;
      run(first);
    }
    return std::move(lists_);
  }

 private:
  struct Stage {
    double clock = 0;
    double waited = 0;
    int forwards = 0, inputs = 0, weights = 0;  // done so far
    std::vector<double> input, gradient;        // [micro-batch]: when they are here
  };
  struct Choice {
    double start = kNever;
    Kind kind = Kind::Forward;
  };

  Choice choose(int index) const {
    const Stage& stage = stages_[index];
    const int microbatches = search_.shape.microbatches;
    const bool weight_left = stage.weights < stage.inputs;
    if (stage.inputs == microbatches) {
      return {weight_left ? stage.clock : kNever, Kind::BackwardWeight};
    }
    const bool forward =
        stage.forwards < microbatches && stage.forwards < stage.inputs + ahead_[index];
    const double kept = search_.limits.kept_for_weights;
    const double held = (stage.forwards - stage.inputs) + kept * (stage.inputs - stage.weights);
    if (forward && held + 1 > search_.limits.memory + kTiny) {
      return {weight_left ? stage.clock : kNever, Kind::BackwardWeight};
    }
    const double ready = forward ? stage.input[stage.forwards] : stage.gradient[stage.inputs];
    const double gap = ready - stage.clock;
    if (weight_left && gap > kTiny) {
      const double weight = search_.times.positions[index].backward_weight;
      const bool fits = gap >= policy_.patience * weight - kTiny;
      if (fits || (policy_.level && stage.waited + gap > most_waited_ + kTiny)) {
        return {stage.clock, Kind::BackwardWeight};
      }
    }
    return {std::max(stage.clock, ready), forward ? Kind::Forward : Kind::BackwardInput};
  }

  void run(int index) {
    Stage& stage = stages_[index];
    const auto [start, kind] = next_[index];
    if (!lists_[index].empty()) stage.waited += start - stage.clock;
    most_waited_ = std::max(most_waited_, stage.waited);
    stage.clock = start + search_.times.positions[index].of(kind);
    const double arrival = stage.clock + search_.times.transfer;
    const int last = search_.shape.stages - 1;
    int& done = kind == Kind::Forward         ? stage.forwards
                : kind == Kind::BackwardInput ? stage.inputs
                                              : stage.weights;
    lists_[index].push_back({kind, done});
    if (kind == Kind::Forward && index == last) stage.gradient[done] = stage.clock;
    if (kind == Kind::Forward && index < last) stages_[index + 1].input[done] = arrival;
    if (kind == Kind::BackwardInput && index > 0) stages_[index - 1].gradient[done] = arrival;
    ++done;
    choose_next(index);
    if (kind == Kind::Forward && index < last) choose_next(index + 1);
    if (kind == Kind::BackwardInput && index > 0) choose_next(index - 1);
  }

  void choose_next(int index) {
    next_[index] = choose(index);
    earliest_.set(index, next_[index].start);
  }

  const Search& search_;
  Policy policy_;
  std::vector<int> ahead_;
  std::vector<Stage> stages_;
  std::vector<Choice> next_;
  Earliest earliest_;  // by next_'s starts
  std::vector<std::vector<PipelineAction>> lists_;
  double most_waited_ = 0;
};

/// Keeps the best schedule seen.
class Best {
 public:
  explicit Best(const Search& search) : search_(search) {}
  void offer(PipelineSchedule schedule) {
    schedule.name = "zb-auto";
    schedule.kept_for_weights = search_.limits.kept_for_weights;
    const double peak = peak_activations(schedule);
    if (peak > search_.limits.memory + kTiny) return;
    Played played = play(schedule, search_.times);
    if (!played.finished) return;
    const Simulation result = summarize(schedule, search_.times, std::move(played));
    if (best_ && !better(result, peak)) return;
    best_ = std::move(schedule);
    span_ = result.max_stage_span;
    makespan_ = result.makespan;
    peak_ = peak;
  }
  bool found() const { return best_.has_value(); }
  PipelineSchedule take() { return std::move(*best_); }

 private:
  bool better(const Simulation& result, double peak) const {
    const double same = kTiny * span_;
    if (std::abs(result.max_stage_span - span_) > same) return result.max_stage_span < span_;
    if (std::abs(result.makespan - makespan_) > same) return result.makespan < makespan_;
    return peak < peak_ - kTiny;
  }

  const Search& search_;
  std::optional<PipelineSchedule> best_;
  double span_ = 0, makespan_ = 0, peak_ = 0;
};

/// One micro-batch after the other: the order that always fits into the memory of one.
PipelineSchedule one_at_a_time(const PipelineShape& shape) {
  std::vector<PipelineAction> list;
  for (int k = 0; k < shape.microbatches; ++k) {
    for (const Kind kind : {Kind::Forward, Kind::BackwardInput, Kind::BackwardWeight}) {
      list.push_back({kind, k});
    }
  }
  return complete("zb-auto", shape, std::vector(static_cast<std::size_t>(shape.stages), list));
}

}  // namespace

PipelineSchedule zb_auto(int stages, int microbatches, const PipelineTimes& times,
                         const SearchLimits& limits) {
  const PipelineShape shape{stages, microbatches, 1};
  check_shape(shape);
  check_times(shape, times);
  if (!(limits.memory >= 1)) {
    throw std::invalid_argument(
        fmt::format("memory = {} micro-batches: a stage that cannot hold one does nothing; the "
                    "smallest that works is 1",
                    limits.memory));
  }
  if (!(limits.kept_for_weights >= 0 && limits.kept_for_weights <= 1)) {
    throw std::invalid_argument(
        fmt::format("kept_for_weights = {}: a share is within 0 and 1", limits.kept_for_weights));
  }
  const Search search{shape, times, limits};
  Best best(search);
  best.offer(zb_h1(stages, microbatches));
  best.offer(zb_h2(stages, microbatches));
  for (const double round_up : {0.0, 0.5, 1.0}) {
    for (const Policy& policy : {Policy{round_up, 0, false}, Policy{round_up, 0.5, true},
                                 Policy{round_up, 1, false}, Policy{round_up, 1, true}}) {
      if (auto lists = Builder(search, policy).build())
        best.offer(complete("zb-auto", shape, *lists));
    }
  }
  if (!best.found()) best.offer(one_at_a_time(shape));
  return best.take();
}

}  // namespace tutti::schedule
