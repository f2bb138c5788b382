// Local checks per stage, then the messages per edge, then memory, then a play without time that
// must finish.
#include "schedule/pipeline_verify.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

#include "schedule/pipeline_check.h"
#include "schedule/pipeline_play.h"

namespace tutti::schedule {
namespace {

/// What has been done for one (micro-batch, chunk), as bits: one per Kind.
using Done = std::uint8_t;
constexpr Done bit(Kind kind) { return static_cast<Done>(1U << static_cast<int>(kind)); }
constexpr Done kInputGradient = bit(Kind::BackwardInput) | bit(Kind::Backward);
constexpr Done kWeightGradient = bit(Kind::BackwardWeight) | bit(Kind::Backward);

/// Checks one stage's list by itself.
class StageCheck {
 public:
  StageCheck(const PipelineSchedule& schedule, const VerifyOptions& options, int stage,
             std::vector<std::string>& problems)
      : schedule_(schedule), options_(options), stage_(stage), problems_(problems) {
    const PipelineShape& shape = schedule.shape;
    done_.assign(static_cast<std::size_t>(shape.chunks) * shape.microbatches, 0);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int position = position_of(shape, {stage, chunk});
      const auto side = [&](int neighbour) {
        if (neighbour < 0 || neighbour >= shape.positions()) return Side{};
        const Place place = place_of(shape, neighbour);
        return Side{true, place.stage != stage, place.chunk};
      };
      before_.push_back(side(position - 1));
      after_.push_back(side(position + 1));
    }
  }

  void run() {
    const std::vector<PipelineAction>& list = schedule_.actions[stage_];
    for (index_ = 0; index_ < list.size() && found_ < kMaxProblems; ++index_) check(list[index_]);
    for (int chunk = 0; chunk < schedule_.shape.chunks; ++chunk) {
      for (int k = 0; k < schedule_.shape.microbatches && found_ < kMaxProblems; ++k) {
        check_complete(k, chunk);
      }
    }
  }

 private:
  struct Side {
    bool exists = false;  // there is a position on this side
    bool remote = false;  // on another stage
    int chunk = 0;        // its chunk
  };

  Done& done(int microbatch, int chunk) {
    return done_[static_cast<std::size_t>(chunk) * schedule_.shape.microbatches + microbatch];
  }

  void refuse(const std::string& why) {
    ++found_;
    problems_.push_back(
        fmt::format("{} {}", describe_action(schedule_, options_, stage_, index_), why));
  }

  void check(const PipelineAction& action) {
    const auto [kind, microbatch, chunk] = action;
    const PipelineShape& shape = schedule_.shape;
    if (microbatch < 0 || microbatch >= shape.microbatches || chunk < 0 || chunk >= shape.chunks) {
      return refuse(fmt::format(
          "is impossible: the step has micro-batches 0 to {} and the stage chunks 0 to {}",
          shape.microbatches - 1, shape.chunks - 1));
    }
    Done& state = done(microbatch, chunk);
    const bool gradient_again = (bit(kind) & kInputGradient) != 0 && (state & kInputGradient) != 0;
    if ((state & bit(kind)) != 0 || gradient_again ||
        (kind == Kind::BackwardWeight && (state & bit(Kind::Backward)) != 0)) {
      return refuse("is doubled: each micro-batch does it once per chunk");
    }
    if (const std::string missing = missing_before(action, state); !missing.empty()) {
      refuse(fmt::format("comes too early: {} must come before it in the list", missing));
    }
    state |= bit(kind);
  }

  /// The name of what the action needs and has not got; empty if nothing.
  std::string missing_before(const PipelineAction& action, Done state) {
    const auto [kind, microbatch, chunk] = action;
    const Side before = before_[chunk];
    const Side after = after_[chunk];
    const auto need = [&](Done wanted, Kind called, int of_chunk) {
      const Done has = of_chunk == chunk ? state : done(microbatch, of_chunk);
      return (has & wanted) != 0 ? std::string()
                                 : name({called, microbatch, of_chunk}, schedule_.shape.chunks);
    };
    switch (kind) {
      case Kind::Forward:
        if (before.remote) return need(bit(Kind::RecvForward), Kind::RecvForward, chunk);
        if (before.exists) return need(bit(Kind::Forward), Kind::Forward, before.chunk);
        return {};
      case Kind::Backward:
      case Kind::BackwardInput:
        if ((state & bit(Kind::Forward)) == 0)
          return need(bit(Kind::Forward), Kind::Forward, chunk);
        if (after.remote) return need(bit(Kind::RecvBackward), Kind::RecvBackward, chunk);
        if (after.exists) return need(kInputGradient, Kind::BackwardInput, after.chunk);
        return {};
      case Kind::BackwardWeight:
        return need(bit(Kind::BackwardInput), Kind::BackwardInput, chunk);
      case Kind::SendForward:
        if (!after.remote)
          return "a neighbouring stage that takes its output (there is none, so it)";
        return need(bit(Kind::Forward), Kind::Forward, chunk);
      case Kind::SendBackward:
        if (!before.remote)
          return "a neighbouring stage that takes its gradient (there is none, so it)";
        return need(kInputGradient, Kind::BackwardInput, chunk);
      case Kind::RecvForward:
        if (!before.remote)
          return "a neighbouring stage that sends its input (there is none, so it)";
        return {};
      case Kind::RecvBackward:
        if (!after.remote)
          return "a neighbouring stage that sends its gradient (there is none, so it)";
        return {};
    }
    return {};
  }

  void check_complete(int microbatch, int chunk) {
    const Done state = done(microbatch, chunk);
    const auto want = [&](bool wanted, Done accepted, Kind called) {
      if (!wanted || (state & accepted) != 0) return;
      ++found_;
      problems_.push_back(
          fmt::format("stage {} never does {}: each micro-batch needs it once per chunk. Add it.",
                      stage_, name({called, microbatch, chunk}, schedule_.shape.chunks)));
    };
    want(true, bit(Kind::Forward), Kind::Forward);
    want(true, kInputGradient, Kind::BackwardInput);
    want(true, kWeightGradient, Kind::BackwardWeight);
    want(before_[chunk].remote, bit(Kind::RecvForward), Kind::RecvForward);
    want(after_[chunk].remote, bit(Kind::SendForward), Kind::SendForward);
    want(after_[chunk].remote, bit(Kind::RecvBackward), Kind::RecvBackward);
    want(before_[chunk].remote, bit(Kind::SendBackward), Kind::SendBackward);
  }

  const PipelineSchedule& schedule_;
  const VerifyOptions& options_;
  int stage_;
  std::vector<std::string>& problems_;
  std::vector<Done> done_;            // [chunk][micro-batch]
  std::vector<Side> before_, after_;  // [chunk]
  std::size_t index_ = 0;
  std::size_t found_ = 0;
};

/// The n-th send of each edge must carry the micro-batch that the n-th receive expects. The lists
/// are complete here.
void check_messages(const PipelineSchedule& schedule, const VerifyOptions& options,
                    std::vector<std::string>& problems) {
  struct Ends {
    std::vector<std::uint32_t> sends,
        receives;  // index in the list of the sender and of the receiver
  };
  std::vector<Ends> edges(static_cast<std::size_t>(num_edges(schedule.shape)));
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    const std::vector<PipelineAction>& list = schedule.actions[stage];
    for (std::uint32_t index = 0; index < list.size(); ++index) {
      const Kind kind = list[index].kind;
      if (is_compute(kind)) continue;
      Ends& ends = edges[edge_of(schedule.shape, stage, list[index])];
      const bool send = kind == Kind::SendForward || kind == Kind::SendBackward;
      (send ? ends.sends : ends.receives).push_back(index);
    }
  }
  for (int edge = 0; edge < num_edges(schedule.shape) && problems.size() < kMaxProblems; ++edge) {
    const int from = edge_sender(schedule.shape, edge).stage;
    const int to = edge_receiver(schedule.shape, edge).stage;
    const Ends& ends = edges[edge];
    for (std::size_t n = 0; n < ends.sends.size(); ++n) {
      const PipelineAction& send = schedule.actions[from][ends.sends[n]];
      const PipelineAction& receive = schedule.actions[to][ends.receives[n]];
      if (send.microbatch == receive.microbatch) continue;
      problems.push_back(fmt::format(
          "edge {}: {} meets {}: messages of an edge arrive in the order in which they were sent, "
          "so both "
          "lists need the same order of micro-batches",
          edge_name(schedule.shape, edge), describe_action(schedule, options, from, ends.sends[n]),
          describe_action(schedule, options, to, ends.receives[n])));
      break;
    }
  }
}

PipelineTimes no_time(const PipelineShape& shape) { return even_times(shape, {0, 0, 0}); }

void check_memory(const PipelineSchedule& schedule, double limit,
                  std::vector<std::string>& problems) {
  const double most = peak_activations(schedule);
  if (most <= limit + 1e-9) return;
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    if (peak_activations(schedule, stage) < most) continue;
    problems.push_back(
        fmt::format("memory = {:g} micro-batches is too small for {}: stage {} holds the "
                    "activations of {:g} at once. "
                    "The smallest that works for this order is {:g}; zb-auto searches an order for "
                    "less, down to 1.",
                    limit, schedule.name, stage, most, most));
    return;
  }
}

}  // namespace

std::string describe_action(const PipelineSchedule& schedule, const VerifyOptions& options,
                            int stage, std::size_t index) {
  const std::string what = name(schedule.actions[stage][index], schedule.shape.chunks);
  if (options.lines != nullptr) {
    return fmt::format("line {} ({} of stage {})", (*options.lines)[stage][index], what, stage);
  }
  return fmt::format("action {} ({}) of stage {}", index, what, stage);
}

Verdict verify(const PipelineSchedule& schedule, const VerifyOptions& options) {
  check_shape(schedule.shape);
  if (schedule.actions.size() != static_cast<std::size_t>(schedule.shape.stages) ||
      schedule.slots.size() != static_cast<std::size_t>(num_edges(schedule.shape))) {
    throw std::invalid_argument(fmt::format(
        "{} lists and {} slot counts for {} stages and {} edges", schedule.actions.size(),
        schedule.slots.size(), schedule.shape.stages, num_edges(schedule.shape)));
  }
  Verdict verdict;
  for (int stage = 0; stage < schedule.shape.stages && verdict.problems.size() < kMaxProblems;
       ++stage) {
    StageCheck(schedule, options, stage, verdict.problems).run();
  }
  if (!verdict.ok()) return verdict;
  check_messages(schedule, options, verdict.problems);
  if (!verdict.ok()) return verdict;
  verdict.deadlock_free = play(schedule, no_time(schedule.shape)).finished;
  if (!verdict.deadlock_free) {
    const int smallest = smallest_slots(schedule);
    verdict.problems.push_back(
        explain_deadlock(schedule, options) +
        (smallest == 0 ? std::string(" No number of slots helps: change the order.")
                       : fmt::format(" {} slots on every edge let it finish.", smallest)));
  }
  if (options.memory) check_memory(schedule, *options.memory, verdict.problems);
  return verdict;
}

int smallest_slots(const PipelineSchedule& schedule) {
  const PipelineTimes times = no_time(schedule.shape);
  const auto works = [&](int slots) {
    return play(schedule, times, std::vector<int>(schedule.slots.size(), slots)).finished;
  };
  int too_few = 0;
  int enough = schedule.shape.microbatches;  // never waits for a slot
  if (!works(enough)) return 0;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (works(middle) ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace tutti::schedule
