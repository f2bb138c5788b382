// What happened, or what is predicted to happen: the one event type of engine, simulator and
// report.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/json.h"

namespace tutti::core {

/// One span on one lane of one rank. Times in seconds on the steady clock (measured) or from 0
/// (predicted).
struct TraceEvent {
  int rank = 0;
  std::string lane;  // "compute", "comm", "loader", "checkpoint"
  std::string name;  // "forward blocks.3", "reduce_scatter bucket 2"
  Seconds begin{};
  Seconds end{};
  Json args = {};  // small facts: bytes, micro-batch
};

/// Collects events of this rank while it is on. Thread-safe; off costs one load.
class Trace {
 public:
  explicit Trace(int rank) : rank_(rank) {}
  void set_on(bool on) { on_ = on; }
  [[nodiscard]] bool on() const { return on_; }
  void add(std::string lane, std::string name, Seconds begin, Seconds end, Json args = {});
  /// The events so far; the trace is empty afterwards.
  std::vector<TraceEvent> take();

 private:
  int rank_;
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  std::vector<TraceEvent> events_;
};

/// Adds a span from here to the end of the scope; nothing if the trace is null or off.
class TraceScope {
 public:
  TraceScope(Trace* trace, std::string lane, std::string name);
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope();

 private:
  Trace* trace_;
  std::string lane_, name_;
  Seconds begin_{};
};

/// The document that chrome://tracing and Perfetto open: one process per rank, one thread per lane,
/// microseconds from the earliest event.
Json chrome_trace(const std::vector<TraceEvent>& events);

Json to_json(const TraceEvent& event);
TraceEvent trace_event_from_json(const Json& json);

}  // namespace tutti::core
