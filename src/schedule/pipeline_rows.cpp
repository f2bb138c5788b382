// CSV in, one simulated schedule per row out.
#include "schedule/pipeline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/error.h"
#include "schedule/pipeline.h"
#include "schedule/pipeline_simulate.h"
#include "schedule/pipeline_verify.h"

namespace tutti::schedule {
namespace {

/// One line's fields; a field in double quotes may hold commas, and "" stands for one quote.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == '"') {
      if (quoted && at + 1 < line.size() && line[at + 1] == '"') {
        fields.back() += line[++at];
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

template <typename Number>
Number number(const std::string& column, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    throw core::ConfigError(fmt::format("{} = '{}' is not a number", column, text));
  }
  return value;
}

PipelineRow answer(const std::map<std::string, std::string>& row) {
  const auto whole = [&](const std::string& column, int missing) {
    const auto found = row.find(column);
    return found == row.end() || found->second.empty() ? missing
                                                       : number<int>(column, found->second);
  };
  const auto real = [&](const std::string& column) {
    return number<double>(column, row.at(column));
  };
  PipelineRequest request;
  request.name = row.at("schedule");
  request.stages = number<int>("p", row.at("p"));
  request.microbatches = number<int>("m", row.at("m"));
  request.chunks = whole("v", 0);
  if (request.name == "zb-1p" || request.name == "zb-2p") {
    request.memory = request.stages * (request.name == "zb-1p" ? 1.0 : 2.0);
    request.name = "zb-auto";
  }
  core::throw_if_any(check(request));
  const auto transfer = row.find("tcomm");
  const bool free = transfer == row.end() || transfer->second.empty();
  request.times = even_times(pipeline_shape(request), {real("tf"), real("tb"), real("tw")},
                             free ? 0 : real("tcomm"));
  const PipelineSchedule schedule = make_pipeline(request);
  const Verdict verdict = verify(schedule, {request.memory});
  if (!verdict.ok()) throw core::ConfigError(verdict.problems.front());
  const Simulation result = simulate(schedule, *request.times);
  const auto id = row.find("id");
  return {id == row.end() ? "" : id->second, result.bubble, result.bubble_global,
          peak_activations(schedule)};
}

}  // namespace

std::vector<PipelineRow> answer_rows(std::string_view csv) {
  std::vector<std::string> header;
  std::vector<PipelineRow> rows;
  std::vector<core::Problem> problems;
  int line_number = 0;
  while (!csv.empty()) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    const std::vector<std::string> fields = fields_of(csv.substr(0, end));
    csv.remove_prefix(std::min(end + 1, csv.size()));
    ++line_number;
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (header.empty()) {
      header = fields;
      for (const char* column : {"id", "schedule", "p", "m", "tf", "tb", "tw"}) {
        if (std::find(header.begin(), header.end(), column) == header.end()) {
          problems.push_back(
              {fmt::format("line {}: the header has no column {}", line_number, column)});
        }
      }
      core::throw_if_any(problems);
      continue;
    }
    std::map<std::string, std::string> row;
    for (std::size_t column = 0; column < header.size(); ++column) {
      row[header[column]] = column < fields.size() ? fields[column] : "";
    }
    try {
      rows.push_back(answer(row));
    } catch (const core::ConfigError& error) {
      problems.push_back({fmt::format("line {}: {}", line_number, error.what())});
    }
  }
  if (header.empty()) problems.push_back({"the table is empty: it needs a header line"});
  core::throw_if_any(std::move(problems));
  return rows;
}

}  // namespace tutti::schedule
