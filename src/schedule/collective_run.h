// Runs the lists of all ranks without data: who can go on, who waits for whom, in which round.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedule/collective_step.h"

namespace tutti::schedule {

/// One entry: lists[rank][entry].
struct EntryId {
  int rank = 0;
  int entry = 0;
  friend bool operator==(const EntryId&, const EntryId&) = default;
};

/// What happens, in an order that respects every wait. The outcome does not depend on which such
/// order is taken: queues are first in, first out, and flags only grow.
struct RunEvents {
  std::function<void(int rank)> step_begins;  // before the first entry of a rank's next step
  std::function<void(EntryId id)> entry_done;
  std::function<void(int rank)> step_ends;
};

/// How a run ended.
struct RunResult {
  bool finished = false;
  std::vector<EntryId>
      waits;  // not finished: entries that wait in a circle, each for the next one's rank; or a
              // chain whose last entry waits for what its peer's list does not have
  std::string text;             // the same in words; empty if finished
  std::vector<EntryId> unread;  // Sends whose message nobody received; finished runs only
  int rounds = 0;               // see below; finished runs only
};

/// Runs lists under `slots` messages per ordered pair. `events` may be null.
///
/// Rounds: a message or a mark is there one round after the step that sends it began; a step with a
/// Send takes at least one round; everything else takes no time. So rounds counts the latencies on
/// the longest path. Peers must be ranks and list steps must ascend: check with malformed() first.
RunResult run(const StepLists& lists, int slots, const RunEvents* events = nullptr);

/// The smallest number of slots under which the lists finish; 0 if none does.
int smallest_slots(const StepLists& lists);

}  // namespace tutti::schedule
