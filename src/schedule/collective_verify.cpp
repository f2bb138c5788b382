// Order of the proof: can it be run, does everybody finish, then what the elements hold
// (collective_proof.h).
#include "schedule/collective_verify.h"

#include <fmt/format.h>

#include <tuple>

#include "schedule/collective_proof.h"
#include "schedule/collective_run.h"
#include "schedule/rotation_verify.h"

namespace tutti::schedule {
namespace {

std::size_t buffer_size(const CollectiveSchedule& schedule, int rank, Space space) {
  switch (space) {
    case Space::Data:
      return schedule.data_elements(rank);
    case Space::Input:
      return schedule.input_elements(rank);
    case Space::Scratch:
      return schedule.scratch;
  }
  return 0;
}

bool peers_are_ranks(const Peers& peers, int ranks) {
  const int last = peers.rank(peers.count - 1);
  return peers.count >= 1 && peers.stride >= 1 && peers.first >= 0 && last < ranks;
}

// Why one entry cannot be run; empty if it can.
std::string flaw(const CollectiveSchedule& schedule, int rank, const CollectiveStep& step) {
  if (step.slice.begin > step.slice.end) return "its slice ends before it begins";
  if (step.verb == Verb::Publish) return "";
  if (!peers_are_ranks(step.peers, schedule.request.ranks)) return "a peer is no rank";
  const bool message = step.verb == Verb::Send || receives(step.verb);
  const bool single = message || step.verb == Verb::CopyFrom;
  if (single && step.peers.count != 1) return "it needs exactly one peer";
  if (message && step.peers.first == rank) return "a rank does not send to itself";
  if (!moves_data(step.verb)) return "";
  if (step.slice.end > buffer_size(schedule, rank, step.space))
    return "its slice ends beyond the buffer";
  const bool writes = step.verb != Verb::Send && step.verb != Verb::StoreTo;
  if (writes && step.space == Space::Input) return "Input is never written";
  if (!one_sided(step.verb)) return "";
  if (step.verb == Verb::StoreTo && step.peer_space == Space::Input)
    return "Input is never written";
  for (int i = 0; i < step.peers.count; ++i) {
    const std::size_t size = buffer_size(schedule, step.peers.rank(i), step.peer_space);
    if (step.peer_begin + step.slice.size() > size)
      return "the peer's slice ends beyond its buffer";
  }
  return "";
}

std::string malformed(const CollectiveSchedule& schedule, const StepLists& lists) {
  if (schedule.slots < 1)
    return fmt::format("{} slots: a message needs at least one", schedule.slots);
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    int previous = 0;
    int marks = 0;
    int published = -1;  // step of the last mark
    for (const CollectiveStep& step : lists[rank]) {
      std::string why = flaw(schedule, static_cast<int>(rank), step);
      if (step.step < previous) why = "steps go back";
      if (step.verb == Verb::Publish && step.step == published)
        why = "one step publishes two marks";
      if (step.verb == Verb::Publish && step.mark != ++marks)
        why = "marks count from 1, one by one";
      if (!why.empty())
        return fmt::format("rank {}, step {} ({}): {}", rank, step.step, describe(step), why);
      previous = step.step;
      if (step.verb == Verb::Publish) published = step.step;
    }
  }
  return "";
}

}  // namespace

std::string_view name(Fault fault) {
  switch (fault) {
    case Fault::None:
      return "none";
    case Fault::Malformed:
      return "malformed";
    case Fault::Deadlock:
      return "deadlock";
    case Fault::Mismatch:
      return "mismatch";
    case Fault::Race:
      return "race";
    case Fault::Undefined:
      return "undefined";
    case Fault::Wrong:
      return "wrong result";
    case Fault::Order:
      return "order";
  }
  return "?";
}

CollectiveVerdict verify(const CollectiveSchedule& schedule) {
  if (!schedule.rotation) return verify_lists(schedule);
  return verify_rotation(*schedule.rotation, schedule.request.operation, schedule.request.ranks,
                         schedule.slots);
}

CollectiveVerdict verify_lists(const CollectiveSchedule& schedule) {
  const StepLists lists = schedule.all_lists();
  CollectiveVerdict verdict;
  verdict.text = malformed(schedule, lists);
  if (!verdict.text.empty()) {
    verdict.fault = Fault::Malformed;
    return verdict;
  }
  const RunResult waits = run(lists, schedule.slots);
  verdict.deadlock_free = waits.finished;
  verdict.smallest_slots = waits.finished && schedule.slots == 1 ? 1 : smallest_slots(lists);
  if (!waits.finished) {
    verdict.fault = Fault::Deadlock;
    verdict.text = waits.text;
    return verdict;
  }
  if (!waits.unread.empty()) {
    const EntryId id = waits.unread.front();
    const CollectiveStep& step =
        lists[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.entry)];
    verdict.fault = Fault::Mismatch;
    verdict.text = fmt::format("rank {}, step {} ({}): rank {} never receives it", id.rank,
                               step.step, describe(step), step.peers.first);
    return verdict;
  }
  Proof proof(schedule, lists);
  std::tie(verdict.fault, verdict.text) = proof.run();
  return verdict;
}

}  // namespace tutti::schedule
