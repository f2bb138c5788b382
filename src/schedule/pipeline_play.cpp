// A network of processes with FIFO channels: each stage runs until it must wait, and is woken by
// what it waits for.
#include "schedule/pipeline_play.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::schedule {
namespace {

/// One edge: when messages arrive, and when the receiver gave slots back.
struct Channel {
  int sender = 0;
  int receiver = 0;
  int slots = 0;
  std::size_t taken = 0;
  std::vector<double> arrivals;  // one per send so far
  std::vector<double> returns;   // one per slot given back
};

/// What one chunk of one stage touches; -1: no such edge.
struct Ports {
  int recv_forward = -1, send_forward = -1, recv_backward = -1, send_backward = -1;
  const ActionTimes* times = nullptr;
};

class Player {
 public:
  Player(const PipelineSchedule& schedule, const PipelineTimes& times,
         const std::vector<int>& slots, bool keep_events)
      : schedule_(schedule), times_(times), keep_events_(keep_events) {
    const PipelineShape& shape = schedule.shape;
    if (times.positions.size() != static_cast<std::size_t>(shape.positions())) {
      throw std::invalid_argument(fmt::format("times of {} positions for {} positions",
                                              times.positions.size(), shape.positions()));
    }
    const auto stages = static_cast<std::size_t>(shape.stages);
    played_.next.assign(stages, 0);
    played_.begin.assign(stages, 0);
    played_.end.assign(stages, 0);
    played_.events.resize(stages);
    clock_.assign(stages, 0);
    started_.assign(stages, false);
    queued_.assign(stages, false);
    for (int edge = 0; edge < num_edges(shape); ++edge) {
      Channel channel{edge_sender(shape, edge).stage, edge_receiver(shape, edge).stage,
                      slots.at(edge)};
      if (!edge_is_local(shape, edge)) {
        channel.arrivals.reserve(shape.microbatches);
        channel.returns.reserve(shape.microbatches);
      }
      channels_.push_back(std::move(channel));
    }
    open_ports();
  }

  Played run() {
    for (int stage = 0; stage < schedule_.shape.stages; ++stage) wake(stage);
    while (!ready_.empty()) {
      const int stage = ready_.back();
      ready_.pop_back();
      queued_[stage] = false;
      advance(stage);
    }
    played_.finished = true;
    for (std::size_t stage = 0; stage < played_.next.size(); ++stage) {
      if (played_.next[stage] < schedule_.actions[stage].size()) played_.finished = false;
    }
    return std::move(played_);
  }

 private:
  void open_ports() {
    const PipelineShape& shape = schedule_.shape;
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const int position = position_of(shape, {stage, chunk});
        Ports ports;
        ports.times = &times_.positions[position];
        if (position > 0 && !edge_is_local(shape, 2 * position - 2)) {
          ports.recv_forward = 2 * position - 2;
          ports.send_backward = 2 * position - 1;
        }
        if (position + 1 < shape.positions() && !edge_is_local(shape, 2 * position)) {
          ports.send_forward = 2 * position;
          ports.recv_backward = 2 * position + 1;
        }
        ports_.push_back(ports);
      }
    }
  }

  void wake(int stage) {
    if (queued_[stage]) return;
    queued_[stage] = true;
    ready_.push_back(stage);
  }

  /// Runs a stage until its list ends or it must wait.
  void advance(int stage) {
    const std::vector<PipelineAction>& list = schedule_.actions[stage];
    std::size_t& next = played_.next[stage];
    for (; next < list.size(); ++next) {
      const PipelineAction& action = list[next];
      if (action.chunk < 0 || action.chunk >= schedule_.shape.chunks) {
        edge_of(schedule_.shape, stage, action);  // throws, with the reason
        throw std::invalid_argument(
            fmt::format("{} of stage {}: the stage has no such chunk", name(action, 2), stage));
      }
      const Ports& ports = ports_[stage * schedule_.shape.chunks + action.chunk];
      bool done = true;
      switch (action.kind) {
        case Kind::RecvForward:
          done = receive(stage, action, ports.recv_forward);
          break;
        case Kind::RecvBackward:
          done = receive(stage, action, ports.recv_backward);
          break;
        case Kind::SendForward:
          done = send(stage, action, ports.send_forward);
          break;
        case Kind::SendBackward:
          done = send(stage, action, ports.send_backward);
          break;
        default:
          compute(stage, action, ports);
      }
      if (!done) return;
    }
  }

  Channel& channel(int stage, const PipelineAction& action, int edge) {
    if (edge < 0) {
      throw std::invalid_argument(
          fmt::format("{} of stage {}: no other stage is on that side of the chunk",
                      name(action, schedule_.shape.chunks), stage));
    }
    return channels_[edge];
  }

  bool receive(int stage, const PipelineAction& action, int edge) {
    Channel& from = channel(stage, action, edge);
    if (from.taken == from.arrivals.size()) return false;
    clock_[stage] = std::max(clock_[stage], from.arrivals[from.taken++]);
    return true;
  }

  bool send(int stage, const PipelineAction& action, int edge) {
    Channel& to = channel(stage, action, edge);
    const auto owed = static_cast<std::ptrdiff_t>(to.arrivals.size()) + 1 - to.slots;
    if (owed > static_cast<std::ptrdiff_t>(to.returns.size())) return false;
    if (owed > 0) clock_[stage] = std::max(clock_[stage], to.returns[owed - 1]);
    to.arrivals.push_back(clock_[stage] + times_.transfer);
    wake(to.receiver);
    return true;
  }

  void compute(int stage, const PipelineAction& action, const Ports& ports) {
    double& clock = clock_[stage];
    if (!started_[stage]) played_.begin[stage] = clock;
    started_[stage] = true;
    const double begin = clock;
    clock += ports.times->of(action.kind);
    played_.end[stage] = clock;
    if (keep_events_) played_.events[stage].push_back({action, begin, clock});
    if (action.kind != Kind::BackwardWeight && action.kind != Kind::Backward) return;
    for (const int edge : {ports.recv_forward, ports.recv_backward}) {
      if (edge < 0) continue;
      channels_[edge].returns.push_back(clock);
      wake(channels_[edge].sender);
    }
  }

  const PipelineSchedule& schedule_;
  const PipelineTimes& times_;
  bool keep_events_;
  Played played_;
  std::vector<double> clock_;           // [stage]
  std::vector<bool> started_, queued_;  // [stage]
  std::vector<Channel> channels_;       // [edge]
  std::vector<Ports> ports_;            // [stage * chunks + chunk]
  std::vector<int> ready_;              // stages to visit, each once
};

}  // namespace

Played play(const PipelineSchedule& schedule, const PipelineTimes& times, bool keep_events) {
  return Player(schedule, times, schedule.slots, keep_events).run();
}

Played play(const PipelineSchedule& schedule, const PipelineTimes& times,
            const std::vector<int>& slots, bool keep_events) {
  return Player(schedule, times, slots, keep_events).run();
}

std::vector<int> unlimited_slots(const PipelineShape& shape) {
  return std::vector<int>(static_cast<std::size_t>(std::max(num_edges(shape), 0)),
                          shape.microbatches);
}

}  // namespace tutti::schedule
