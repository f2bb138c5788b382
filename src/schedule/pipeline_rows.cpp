// CSV in, one simulated schedule per row out.
#include "schedule/pipeline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/csv.h"
#include "core/error.h"
#include "schedule/pipeline.h"
#include "schedule/pipeline_simulate.h"
#include "schedule/pipeline_verify.h"

namespace tutti::schedule {
namespace {

template <typename Number>
Number number(const std::string& column, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    throw core::ConfigError(fmt::format("{} = '{}' is not a number", column, text));
  }
  return value;
}

PipelineRow answer(const core::CsvRow& row) {
  const auto real = [&](const std::string& column) {
    return number<double>(column, row.text(column));
  };
  const auto whole = [&](const std::string& column) {
    return number<int>(column, row.text(column));
  };
  PipelineRequest request;
  request.name = row.text("schedule");
  request.stages = whole("p");
  request.microbatches = whole("m");
  request.chunks = row.text("v").empty() ? 0 : whole("v");
  if (request.name == "zb-1p" || request.name == "zb-2p") {
    request.memory = request.stages * (request.name == "zb-1p" ? 1.0 : 2.0);
    request.name = "zb-auto";
  }
  core::throw_if_any(check(request));
  const bool free = row.text("tcomm").empty();
  request.times = even_times(pipeline_shape(request), {real("tf"), real("tb"), real("tw")},
                             free ? 0 : real("tcomm"));
  const PipelineSchedule schedule = make_pipeline(request);
  const Verdict verdict = verify(schedule, {request.memory});
  if (!verdict.ok()) throw core::ConfigError(verdict.problems.front());
  const Simulation result = simulate(schedule, *request.times);
  return {row.text("id"), result.bubble, result.bubble_global, peak_activations(schedule)};
}

}  // namespace

std::vector<PipelineRow> answer_rows(std::string_view csv) {
  const core::CsvTable table = core::read_csv(csv);
  std::vector<core::Problem> problems;
  for (const char* column : {"id", "schedule", "p", "m", "tf", "tb", "tw"}) {
    if (std::ranges::find(table.columns, column) == table.columns.end()) {
      problems.push_back(
          {fmt::format("line {}: the header has no column {}", table.header_line, column)});
    }
  }
  core::throw_if_any(problems);
  std::vector<PipelineRow> rows;
  for (const core::CsvRow& row : table.rows) {
    try {
      rows.push_back(answer(row));
    } catch (const core::ConfigError& error) {
      problems.push_back({fmt::format("line {}: {}", row.line(), error.what())});
    }
  }
  core::throw_if_any(std::move(problems));
  return rows;
}

}  // namespace tutti::schedule
