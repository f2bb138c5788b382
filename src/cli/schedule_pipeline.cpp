// Makes, proves, prices and draws one pipeline order.
#include "cli/schedule_pipeline.h"

#include <fmt/format.h>

#include <charconv>

#include "cli/schedule_times.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "schedule/order_csv.h"
#include "schedule/pipeline.h"
#include "schedule/pipeline_compare.h"
#include "schedule/pipeline_draw.h"
#include "schedule/pipeline_report.h"
#include "schedule/pipeline_rows.h"

namespace tutti::cli {
namespace {

std::optional<int> typed(int value) { return value == 0 ? std::nullopt : std::optional(value); }

/// A user's own order, or a generated one without line numbers. Spreads `times` over its stages.
schedule::OrderFile order_of(const SchedulePipelineOptions& options, StageTimes& times) {
  if (!options.file.empty()) {
    schedule::OrderFile own = schedule::read_order(
        core::read_file(options.file),
        {typed(options.stages), typed(options.microbatches), typed(options.chunks)});
    spread_over(times, own.schedule.shape.stages);
    return own;
  }
  schedule::PipelineRequest request;
  request.name = options.name;
  request.stages = options.stages;
  request.microbatches = options.microbatches;
  request.chunks = options.chunks;
  request.kept_for_weights = options.kept.value_or(schedule::kKeptForWeights);
  core::throw_if_any(schedule::check(request));  // before times are made for its shape
  const schedule::PipelineShape shape = schedule::pipeline_shape(request);
  spread_over(times, shape.stages);
  request.times = schedule::stage_times(shape, times.stages, times.transfer);
  request.memory = options.memory;
  return {schedule::make_pipeline(request), {}};
}

void set_slots(schedule::PipelineSchedule& order, int slots) {
  if (slots < 1) {
    throw core::ConfigError(
        fmt::format("--slots = {}: a message needs a buffer to arrive in, so at least 1.", slots));
  }
  for (int edge = 0; edge < schedule::num_edges(order.shape); ++edge) {
    if (!schedule::edge_is_local(order.shape, edge)) order.slots[edge] = slots;
  }
}

struct Drawn {
  schedule::PipelineSchedule order;
  schedule::Simulation result;
};

/// The order of one `--beside NAME[:CHUNKS]`, with the shape and times of the main one.
Drawn beside(const std::string& text, const schedule::PipelineShape& main,
             const StageTimes& times) {
  const std::vector<std::string> parts = split(text, ':');
  schedule::PipelineRequest request{parts[0], main.stages, main.microbatches};
  if (parts.size() > 1) {
    const char* const last = parts[1].data() + parts[1].size();
    const auto [end, error] = std::from_chars(parts[1].data(), last, request.chunks);
    if (parts.size() > 2 || error != std::errc{} || end != last) {
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
                   const StageTimes& times) {
  std::vector<Drawn> others;
  for (const std::string& text : options.beside)
    others.push_back(beside(text, main.schedule.shape, times));
  std::vector<schedule::Panel> panels = {main};
  for (const Drawn& other : others) panels.push_back({other.order, other.result});
  core::write_file_atomically(options.svg, schedule::draw_svg(panels));
}

/// What the folk rule is worth here; for pipelines too large to try them all, where to ask.
std::string comparison(const schedule::PipelineShape& shape, const StageTimes& times) {
  const schedule::CompareQuestion question{shape.stages, shape.microbatches, times.stages,
                                           times.transfer};
  if (!schedule::can_compare(question)) {
    return "The other orders are not compared: too many actions. Ask for fewer micro-batches.\n";
  }
  return schedule::comparison_text(question, schedule::compare_orders(question));
}

std::vector<core::Problem> problems_of(const schedule::Verdict& verdict, const std::string& file) {
  std::vector<core::Problem> problems;
  for (const std::string& text : verdict.problems) {
    problems.push_back({file.empty() ? text : fmt::format("{}: {}", file, text)});
  }
  return problems;
}

}  // namespace

std::string schedule_pipeline(const SchedulePipelineOptions& options, int& status) {
  status = 0;
  StageTimes times = parse_times(options.times);
  schedule::OrderFile order = order_of(options, times);
  const schedule::PipelineShape shape = order.schedule.shape;
  if (options.slots) set_slots(order.schedule, *options.slots);
  const schedule::PipelineReport report = schedule::report(
      std::move(order.schedule), schedule::stage_times(shape, times.stages, times.transfer),
      {options.memory, options.file.empty() ? nullptr : &order.lines});
  if (!report.verdict.ok()) {
    const std::vector<core::Problem> problems = problems_of(report.verdict, options.file);
    if (!options.json) throw core::ConfigError(problems);
    for (const core::Problem& problem : problems) fmt::print(stderr, "tutti: {}\n", problem.text);
    status = 2;
    return schedule::to_json(report).dump(2) + "\n";
  }
  if (!options.svg.empty()) write_picture(options, {report.schedule, *report.result}, times);
  if (options.json) return schedule::to_json(report).dump(2) + "\n";
  return schedule::describe(report) + "\n" + comparison(shape, times);
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
