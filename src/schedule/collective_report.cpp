// Texts of schedule/collective_report.h.
#include "schedule/collective_report.h"

#include <fmt/format.h>

#include "schedule/collective_draw.h"

namespace tutti::schedule {

namespace {

// Ranks whose proof takes some seconds at most: a ring is proven on one rank's list; elsewhere
// buffers end in a piece per rank, or in few pieces, or every pair of ranks has a message.
int most_ranks(const CollectiveRequest& request) {
  const bool rooted = request.operation == Operation::Broadcast ||
                      request.operation == Operation::Scatter ||
                      request.operation == Operation::Gather;
  if (request.operation == Operation::AllToAll) return 512;
  if (rooted) return 4096;
  switch (request.algorithm) {
    case Algorithm::Ring:
      return 65536;
    case Algorithm::Tree:
    case Algorithm::Doubling:
    case Algorithm::Chain:
      return 4096;
    default:
      return 1024;
  }
}

void check_size(const CollectiveRequest& request) {
  const int most = most_ranks(request);
  if (request.ranks <= most) return;
  throw core::ConfigError(fmt::format(
      "ranks = {} are too many to prove: a {} {} is followed element by element through every rank "
      "in seconds up to {}. Its pattern is the same with fewer ranks.",
      request.ranks, name(request.algorithm), name(request.operation), most));
}

}  // namespace

CollectiveReport report(const CollectiveRequest& request) {
  if (request.ranks >= 1 && supports(request.operation, request.algorithm)) check_size(request);
  core::throw_if_any(check(request));
  CollectiveReport result{generate(request), {}, cost(request)};
  result.verdict = verify(result.schedule);
  return result;
}

std::string describe(const CollectiveReport& report) {
  const CollectiveRequest& request = report.schedule.request;
  const CollectiveVerdict& verdict = report.verdict;
  std::string text = fmt::format("{} {} of {} ranks, {} elements\n", name(request.algorithm),
                                 name(request.operation), request.ranks, request.elements);
  text += fmt::format("cost    {} rounds; the busiest rank moves {:.0f} elements and adds {:.0f}\n",
                      report.cost.rounds, report.cost.moved, report.cost.added);
  text += verdict.ok() ? fmt::format(
                             "proven  no deadlock with {} of {} slots, no race, every element once "
                             "and in order\n",
                             verdict.smallest_slots, report.schedule.slots)
                       : fmt::format("refused {}: {}\n", name(verdict.fault), verdict.text);
  return text + step_table(report.schedule);
}

core::Json to_json(const CollectiveReport& report) {
  const CollectiveRequest& request = report.schedule.request;
  const CollectiveVerdict& verdict = report.verdict;
  core::Json json;
  json["operation"] = name(request.operation);
  json["algorithm"] = name(request.algorithm);
  json["ranks"] = request.ranks;
  json["elements"] = request.elements;
  json["rounds"] = report.cost.rounds;
  json["moved_elements"] = report.cost.moved;
  json["added_elements"] = report.cost.added;
  json["scratch_elements"] = report.schedule.scratch;
  json["slots"] = report.schedule.slots;
  json["smallest_slots"] = verdict.smallest_slots;
  json["deadlock_free"] = verdict.deadlock_free;
  json["ok"] = verdict.ok();
  json["fault"] = verdict.ok() ? core::Json(nullptr) : core::Json(name(verdict.fault));
  json["text"] = verdict.ok() ? core::Json(nullptr) : core::Json(verdict.text);
  return json;
}

}  // namespace tutti::schedule
