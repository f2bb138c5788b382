// From typed words to a proven collective and its picture.
#include "cli/schedule_collective.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "core/error.h"
#include "schedule/collective_draw.h"
#include "schedule/collective_report.h"

namespace tutti::cli {
namespace {

schedule::CollectiveRequest request_of(const ScheduleCollectiveOptions& options) {
  const std::size_t counted =
      std::accumulate(options.counts.begin(), options.counts.end(), std::size_t{0});
  const auto ranks = static_cast<std::size_t>(std::max(options.ranks, 1));
  const std::size_t enough = options.elements > 0 ? options.elements : 4 * ranks;
  return {.operation = schedule::parse_operation(options.operation),
          .algorithm = schedule::parse_algorithm(options.algorithm),
          .ranks = options.ranks,
          .elements = options.counts.empty() ? enough : counted,
          .counts = options.counts,
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
