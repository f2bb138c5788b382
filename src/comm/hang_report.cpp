// Text of hang reports.
#include "comm/hang_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <vector>

#include "comm/group.h"
#include "core/units.h"

namespace tutti::comm {
namespace {

// The kernel's word on the process: 'T' is stopped, 'Z' dead but not reaped, 0 unknown.
char process_state(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end + 2 < line.size() ? line[name_end + 2] : '\0';
}

std::string missing_line(const Group& group, int rank) {
  const RankLines& lines = group.block().lines(rank);
  const RankLines& world = group.engine().world().lines(group.world_rank(rank));
  const TickRate& rate = group.engine().tick_rate();
  const std::uint32_t pid = world.diary.pid.load();
  std::string text = fmt::format("rank {}  pid {}", group.world_rank(rank), pid);
  // The state by the number that it has here: in a container of its own it knows itself by another.
  if (process_state(group.engine().peers().pid(group.world_rank(rank))) == 'T')
    text += " (stopped)";
  const std::uint32_t done = lines.diary.done.load();
  if (lines.diary.entered.load() != done) {
    text += fmt::format("  inside #{} since {}", lines.diary.entered.load(),
                        core::format_seconds(rate.seconds_since(lines.diary.entered_at.load())));
  } else if (done > 0) {
    text += fmt::format("  last: #{} done {} ago", done,
                        core::format_seconds(rate.seconds_since(lines.diary.done_at.load())));
  } else {
    text += "  nothing done in this group yet";
  }
  if (const std::string activity = world.activity.text.get(); !activity.empty()) {
    text += fmt::format(", for {} in {}",
                        core::format_seconds(rate.seconds_since(world.activity.since.load())),
                        activity);
  }
  return text;
}

// ", the last one (rank 3) 29.8 s ago"; nothing where the diaries do not tell (messages).
std::string last_arrival(const Group& group, std::uint32_t number, const std::vector<int>& there) {
  int last = -1;
  std::uint64_t at = 0;
  for (int r = 0; r < group.size(); ++r) {
    const RankLines::Diary& diary = group.block().lines(r).diary;
    const bool came = std::find(there.begin(), there.end(), group.world_rank(r)) != there.end();
    if (!came || number == 0 || diary.entered.load() != number) continue;
    if (diary.entered_at.load() >= at) last = group.world_rank(r), at = diary.entered_at.load();
  }
  if (last < 0) return "";
  return fmt::format(", the last one (rank {}) {} ago", last,
                     core::format_seconds(group.engine().tick_rate().seconds_since(at)));
}

}  // namespace

std::string operation_title(const Operation& operation) {
  return operation.started() ? fmt::format("{} #{}", name(operation.kind()), operation.number())
                             : std::string(name(operation.kind()));
}

std::string quoted_label(const Operation& operation) {
  return operation.label().empty() ? "" : fmt::format(" ({})", operation.label());
}

HangReport hang_report(const Operation& operation) {
  const Group& group = operation.group();
  const std::vector<int> missing = operation.missing();
  std::vector<int> there, gone;
  for (int r = 0; r < group.size(); ++r) {
    const bool here = std::find(missing.begin(), missing.end(), r) == missing.end();
    (here ? there : gone).push_back(group.world_rank(r));
  }
  HangReport report;
  report.culprit = gone.empty() ? -1 : gone.front();
  report.text = fmt::format(
      "{} of group {} is late: rank {} has waited {} (deadline {}).\n"
      "  what      {}{}{} bytes, {}\n"
      "  arrived   {} ({} of {}){}\n",
      operation_title(operation), group.name(), group.engine().rank(),
      core::format_seconds(operation.asked_for().count()),
      core::format_seconds(group.engine().options().timeout_s), operation.label(),
      operation.label().empty() ? "" : ", ", core::format_count(operation.bytes()),
      operation.signature(), fmt::join(there, " "), there.size(), group.size(),
      last_arrival(group, operation.number(), there));
  const char* head = "  missing   ";
  bool stopped = false;
  for (const int r : missing) {
    const std::string line = missing_line(group, r);
    stopped = stopped || line.find("(stopped)") != std::string::npos;
    report.text += fmt::format("{}{}\n", std::exchange(head, "            "), line);
  }
  report.text += fmt::format(
      "  so        rank {} {}.\n"
      "  then      if it is only slow, raise [comm] timeout_s; its log says what it did last.",
      fmt::join(gone, " and rank "),
      stopped ? "is stopped (SIGSTOP or a debugger)"
              : "lives but has not come: it is slow, or waits for something else");
  return report;
}

}  // namespace tutti::comm
