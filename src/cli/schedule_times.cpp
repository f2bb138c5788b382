// Typed times to numbers, with a sentence for each mistake.
#include "cli/schedule_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace tutti::cli {
namespace {

constexpr double kLongest = 1e100;  // as schedule::check_times has it: sums stay finite

double time_of(const std::string& text) {
  double value = -1;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || !(value >= 0 && value <= kLongest)) {
    throw core::ConfigError(
        fmt::format("--times: '{}' is not a time: a time is a number from 0 to {:g}, as in --times "
                    "1,1,1,0.1 (F,B,W,COMM).",
                    text, kLongest));
  }
  return value;
}

}  // namespace

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

StageTimes parse_times(const std::string& text) {
  StageTimes times;
  if (text.empty()) return {{schedule::ActionTimes{}}, 0};
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

void spread_over(StageTimes& times, int stages) {
  const auto wanted = static_cast<std::size_t>(stages);
  if (times.stages.size() == 1) times.stages.resize(wanted, times.stages.front());
  if (times.stages.size() == wanted) return;
  throw core::ConfigError(
      fmt::format("--times has {} groups for {} stages: give one for all or one each.",
                  times.stages.size(), stages));
}

}  // namespace tutti::cli
