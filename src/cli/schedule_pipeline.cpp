// Makes, proves, prices and draws one pipeline order.
#include "cli/schedule_pipeline.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "schedule/order_csv.h"
#include "schedule/pipeline.h"
#include "schedule/pipeline_compare.h"
#include "schedule/pipeline_draw.h"
#include "schedule/pipeline_rows.h"
#include "schedule/pipeline_simulate.h"
#include "schedule/pipeline_verify.h"

namespace tutti::cli {
namespace {

using schedule::ActionTimes;
using schedule::PipelineSchedule;

struct TypedTimes {
  std::vector<ActionTimes> stages;  // one for all, or one each
  double transfer = 0;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

double time_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() ||
      !std::isfinite(value) || value < 0) {
    throw core::ConfigError(
        fmt::format("--times: '{}' is not a time: a time is a number >= 0, as in --times 1,1,1,0.1 "
                    "(F,B,W,COMM).",
                    text));
  }
  return value;
}

TypedTimes parse_times(const std::string& text) {
  TypedTimes times;
  if (text.empty()) return {{ActionTimes{}}, 0};
  for (const std::string& group : split(text, ';')) {
    const std::vector<std::string> parts = split(group, ',');
    if (parts.size() < 3 || parts.size() > 4) {
      throw core::ConfigError(
          fmt::format("--times: '{}' has {} numbers; it wants F,B,W or F,B,W,COMM for every stage "
                      "alike, or one such group per stage, separated by ';'.",
                      group, parts.size()));
    }
    times.stages.push_back({time_of(parts[0]), time_of(parts[1]), time_of(parts[2])});
    if (times.stages.back().total() <= 0) {
      throw core::ConfigError(fmt::format(
          "--times: '{}' takes no time at all: one of F, B, W must be above 0.", group));
    }
    if (parts.size() == 4) times.transfer = std::max(times.transfer, time_of(parts[3]));
  }
  return times;
}

void spread_over(TypedTimes& times, int stages) {
  if (times.stages.size() == 1 && stages > 1)
    times.stages.assign(static_cast<std::size_t>(stages), times.stages[0]);
  if (times.stages.size() != static_cast<std::size_t>(stages)) {
    throw core::ConfigError(
        fmt::format("--times has {} groups for {} stages: give one for all or one each.",
                    times.stages.size(), stages));
  }
}

std::optional<int> typed(int value) { return value == 0 ? std::nullopt : std::optional(value); }

core::Json document(const PipelineSchedule& order, const schedule::Verdict& verdict,
                    const schedule::Simulation* result) {
  const auto& shape = order.shape;
  const auto number = [&](double schedule::Simulation::*field) {
    return result == nullptr ? core::Json() : core::Json(result->*field);
  };
  core::Json json = {{"schedule", order.name},
                     {"stages", shape.stages},
                     {"microbatches", shape.microbatches},
                     {"chunks", shape.chunks},
                     {"bubble", number(&schedule::Simulation::bubble)},
                     {"bubble_global", number(&schedule::Simulation::bubble_global)},
                     {"makespan", number(&schedule::Simulation::makespan)}};
  json["peak_activations"] = core::Json::array();
  for (int stage = 0; stage < shape.stages; ++stage) {
    json["peak_activations"].push_back(schedule::peak_activations(order, stage));
  }
  json["slots"] = core::Json::object();
  for (int edge = 0; edge < schedule::num_edges(shape); ++edge) {
    if (!schedule::edge_is_local(shape, edge))
      json["slots"][schedule::edge_name(shape, edge)] = order.slots[edge];
  }
  json["deadlock_free"] = verdict.deadlock_free;
  if (!verdict.ok()) json["problems"] = verdict.problems;
  return json;
}

std::string words(const PipelineSchedule& order, const schedule::Simulation& result,
                  const TypedTimes& times) {
  const auto& shape = order.shape;
  std::string text = fmt::format(
      "{}: {} stages, {} micro-batches, {} chunk{} per stage\n\n{}\nbubble     {:.2f} % by stage "
      "span, {:.2f} % by makespan "
      "({:g})\npeak       {:g} micro-batches of activations on the fullest stage{}\nproof      no "
      "deadlock with the order's "
      "slots; {} on every edge would do\n",
      order.name, shape.stages, shape.microbatches, shape.chunks, shape.chunks == 1 ? "" : "s",
      schedule::draw_text(order, result), 100 * result.bubble, 100 * result.bubble_global,
      result.makespan, schedule::peak_activations(order),
      order.kept_for_weights < 1
          ? fmt::format(" ({:.0f} % of one stay between input and weight gradient)",
                        100 * order.kept_for_weights)
          : "",
      schedule::smallest_slots(order));
  const schedule::CompareQuestion question{shape.stages, shape.microbatches, times.stages,
                                           times.transfer};
  return text + "\n" + schedule::comparison_text(question, schedule::compare_orders(question));
}

struct Drawn {
  PipelineSchedule order;
  schedule::Simulation result;
};

/// The order of one `--beside NAME[:CHUNKS]`, with the shape and times of the main one.
Drawn beside(const std::string& text, const schedule::PipelineShape& main,
             const TypedTimes& times) {
  const std::vector<std::string> parts = split(text, ':');
  schedule::PipelineRequest request{parts[0], main.stages, main.microbatches, 0, {}, {}};
  if (parts.size() > 1) {
    const auto [end, error] =
        std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), request.chunks);
    if (parts.size() > 2 || error != std::errc{} || end != parts[1].data() + parts[1].size()) {
      throw core::ConfigError(fmt::format("--beside {}: it wants NAME or NAME:CHUNKS.", text));
    }
  }
  core::throw_if_any(schedule::check(request));
  request.times =
      schedule::stage_times(schedule::pipeline_shape(request), times.stages, times.transfer);
  Drawn drawn{schedule::make_pipeline(request), {}};
  drawn.result = schedule::simulate(drawn.order, *request.times);
  return drawn;
}

void write_picture(const SchedulePipelineOptions& options, const schedule::Panel& main,
                   const TypedTimes& times) {
  std::vector<Drawn> others;
  for (const std::string& text : options.beside)
    others.push_back(beside(text, main.schedule.shape, times));
  std::vector<schedule::Panel> panels = {main};
  for (const Drawn& other : others) panels.push_back({other.order, other.result});
  core::write_file_atomically(options.svg, schedule::draw_svg(panels));
}

}  // namespace

std::string schedule_pipeline(const SchedulePipelineOptions& options, int& status) {
  status = 0;
  TypedTimes times = parse_times(options.times);
  schedule::OrderFile own;
  PipelineSchedule order;
  if (!options.file.empty()) {
    own = schedule::read_order(
        core::read_file(options.file),
        {typed(options.stages), typed(options.microbatches), typed(options.chunks)});
    order = own.schedule;
    spread_over(times, order.shape.stages);
  } else {
    schedule::PipelineRequest request{
        options.name, options.stages, options.microbatches, options.chunks, {}, {}};
    core::throw_if_any(schedule::check(request));
    const schedule::PipelineShape shape = schedule::pipeline_shape(request);
    spread_over(times, shape.stages);
    request.times = schedule::stage_times(shape, times.stages, times.transfer);
    request.memory = options.memory;
    order = schedule::make_pipeline(request);
  }
  if (options.slots > 0) {
    for (int edge = 0; edge < schedule::num_edges(order.shape); ++edge) {
      if (!schedule::edge_is_local(order.shape, edge)) order.slots[edge] = options.slots;
    }
  }
  const schedule::Verdict verdict =
      schedule::verify(order, {options.memory, options.file.empty() ? nullptr : &own.lines});
  if (!verdict.ok()) {
    std::vector<core::Problem> problems;
    for (const std::string& text : verdict.problems) {
      problems.push_back({options.file.empty() ? text : fmt::format("{}: {}", options.file, text)});
    }
    if (!options.json) throw core::ConfigError(problems);
    for (const core::Problem& problem : problems) fmt::print(stderr, "tutti: {}\n", problem.text);
    status = 2;
    return document(order, verdict, nullptr).dump(2) + "\n";
  }
  const schedule::Simulation result =
      schedule::simulate(order, schedule::stage_times(order.shape, times.stages, times.transfer));
  if (!options.svg.empty()) write_picture(options, {order, result}, times);
  return options.json ? document(order, verdict, &result).dump(2) + "\n"
                      : words(order, result, times);
}

std::string schedule_rows(const std::string& path, bool json) {
  const std::vector<schedule::PipelineRow> rows = schedule::answer_rows(core::read_file(path));
  core::Json document = {{"rows", core::Json::array()}};
  std::string text = fmt::format("{:<32} {:>9} {:>9} {:>8}\n", "id", "bubble", "makespan", "peak");
  for (const schedule::PipelineRow& row : rows) {
    document["rows"].push_back({{"id", row.id},
                                {"bubble_predicted", row.bubble},
                                {"bubble_global_predicted", row.bubble_global},
                                {"peak_predicted", row.peak}});
    text += fmt::format("{:<32} {:>9.4f} {:>9.4f} {:>8.3f}\n", row.id, row.bubble,
                        row.bubble_global, row.peak);
  }
  return json ? document.dump(2) + "\n" : text;
}

}  // namespace tutti::cli
