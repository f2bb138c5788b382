// Collecting events, and the two forms in which they leave the process.
#include "core/trace.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"

namespace tutti::core {

void Trace::add(std::string lane, std::string name, Seconds begin, Seconds end, Json args) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  events_.push_back({rank_, std::move(lane), std::move(name), begin, end, std::move(args)});
}

std::vector<TraceEvent> Trace::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

TraceScope::TraceScope(Trace* trace, std::string lane, std::string name)
    : trace_(trace != nullptr && trace->on() ? trace : nullptr) {
  if (trace_ == nullptr) return;
  lane_ = std::move(lane);
  name_ = std::move(name);
  begin_ = now();
}

TraceScope::~TraceScope() {
  if (trace_ == nullptr) return;
  try {
    trace_->add(std::move(lane_), std::move(name_), begin_, now());
  } catch (const std::bad_alloc&) {  // a lost event is better than a lost run
  }
}

Json chrome_trace(const std::vector<TraceEvent>& events) {
  Seconds origin{};
  if (!events.empty()) origin = std::ranges::min_element(events, {}, &TraceEvent::begin)->begin;
  const auto microseconds = [](Seconds time) { return time.count() * 1e6; };

  std::map<std::string, int> threads;  // a lane has the same thread number in every process
  std::set<int> ranks;
  std::set<std::pair<int, std::string>> lanes;
  for (const TraceEvent& event : events) {
    threads.try_emplace(event.lane, static_cast<int>(threads.size()));
    ranks.insert(event.rank);
    lanes.emplace(event.rank, event.lane);
  }

  Json list = Json::array();
  const auto metadata = [&](const char* what, int rank, int thread, Json args) {
    list.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", std::move(args)}});
  };
  for (const int rank : ranks) {
    metadata("process_name", rank, 0, {{"name", fmt::format("rank {}", rank)}});
    metadata("process_sort_index", rank, 0, {{"sort_index", rank}});
  }
  for (const auto& [rank, lane] : lanes)
    metadata("thread_name", rank, threads.at(lane), {{"name", lane}});
  for (const TraceEvent& event : events) {
    Json entry = {{"ph", "X"},
                  {"name", event.name},
                  {"cat", event.lane},
                  {"pid", event.rank},
                  {"tid", threads.at(event.lane)},
                  {"ts", microseconds(event.begin - origin)},
                  {"dur", microseconds(event.end - event.begin)}};
    if (!event.args.empty()) entry["args"] = event.args;
    list.push_back(std::move(entry));
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(list)}};
}

Json to_json(const TraceEvent& event) {
  Json json = {{"rank", event.rank},
               {"lane", event.lane},
               {"name", event.name},
               {"begin_s", event.begin.count()},
               {"end_s", event.end.count()}};
  if (!event.args.empty()) json["args"] = event.args;
  return json;
}

TraceEvent trace_event_from_json(const Json& json) {
  try {
    return {json.at("rank").get<int>(),
            json.at("lane").get<std::string>(),
            json.at("name").get<std::string>(),
            Seconds(json.at("begin_s").get<double>()),
            Seconds(json.at("end_s").get<double>()),
            json.value("args", Json())};
  } catch (const Json::exception& error) {
    throw RunError(fmt::format("{} is not a trace event: {}", json.dump(), error.what()));
  }
}

}  // namespace tutti::core
