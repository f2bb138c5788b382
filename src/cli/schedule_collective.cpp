// From typed words to a proven collective and its picture.
#include "cli/schedule_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "core/error.h"
#include "schedule/collective_draw.h"
#include "schedule/collective_report.h"

namespace tutti::cli {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 53;  // exact as a double in the costs

std::size_t elements_of(const char* option, std::int64_t typed) {
  if (typed >= 0 && typed <= kMostElements) return static_cast<std::size_t>(typed);
  throw core::ConfigError(
      fmt::format("{} = {}: a number of elements is from 0 to 2^53.", option, typed));
}

schedule::CollectiveRequest request_of(const ScheduleCollectiveOptions& options) {
  if (options.elements && !options.counts.empty()) {
    throw core::ConfigError("--counts says how many elements there are: leave --elements out.");
  }
  std::vector<std::size_t> counts;
  for (const std::int64_t typed : options.counts) counts.push_back(elements_of("--counts", typed));
  const std::int64_t enough = 4 * std::int64_t{options.ranks};
  const std::size_t elements =
      counts.empty() ? elements_of("--elements", options.elements.value_or(std::max(enough, 0L)))
                     : std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  return {.operation = schedule::parse_operation(options.operation),
          .algorithm = schedule::parse_algorithm(options.algorithm),
          .ranks = options.ranks,
          .elements = elements,
          .counts = counts,
          .root = options.root,
          .group = options.group,
          .between = schedule::parse_algorithm(options.between),
          .chunks = options.chunks};
}

}  // namespace

bool is_collective(const std::string& name) {
  const auto& all = schedule::all_operations();
  return std::any_of(all.begin(), all.end(),
                     [&](auto operation) { return schedule::name(operation) == name; });
}

std::string schedule_collective(const ScheduleCollectiveOptions& options, int& status) {
  const schedule::CollectiveReport report = schedule::report(request_of(options));
  status = report.verdict.ok() ? 0 : 1;
  if (!options.svg.empty()) {
    std::ofstream file(options.svg);
    file << schedule::step_svg(report.schedule);
    if (!file.flush()) core::throw_errno("writing " + options.svg);
  }
  return options.json ? schedule::to_json(report).dump(2) + "\n" : schedule::describe(report);
}

}  // namespace tutti::cli
