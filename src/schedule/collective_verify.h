// The proof that a collective does what its operation promises, for every timing of the ranks.
#pragma once

#include <string>

#include "schedule/collective.h"

namespace tutti::schedule {

enum class Fault {
  None,
  Malformed,  // a list that cannot be run: peers that are no ranks, slices beyond a buffer, steps
              // that go back
  Deadlock,   // ranks wait for each other, or for what never comes
  Mismatch,   // a message and its receive differ in size, or nobody receives it
  Race,       // two accesses of one element, at least one a write, and nothing orders them
  Undefined,  // an element is read that nobody has written
  Wrong,      // the operation's result lacks a contribution, doubles one or takes another element's
  Order,      // all contributions are there, but added in another order than promised
};
std::string_view name(Fault fault);

struct CollectiveVerdict {
  Fault fault = Fault::None;   // the first one found; Deadlock is looked for first
  std::string text;            // which ranks, steps and elements; empty if there is no fault
  bool deadlock_free = false;  // under exactly the schedule's slots
  int smallest_slots = 0;      // that are deadlock-free; 0: none
  [[nodiscard]] bool ok() const { return fault == Fault::None; }
};

/// Proves, or names the first fault:
/// 1. no wait cycle under exactly `schedule.slots`, and the smallest number that works;
/// 2. each Send meets its receive, in order and size;
/// 3. no race: peers touch a rank's Data and Input only after it has published, and are done before
/// its list ends;
/// 4. each element of the result has each contribution exactly once, from the right element, in the
/// promised order.
///
/// Elements are followed as symbols in runs of equal ones (schedule/sums.h, pieces.h), so the cost
/// depends on entries and cuts, not on elements. A schedule with a rotation is proven on the
/// rotation alone, in O(entries of one rank).
CollectiveVerdict verify(const CollectiveSchedule& schedule);

/// The same, always from the lists of all ranks. ranks^2 memory and more: for some hundred ranks.
CollectiveVerdict verify_lists(const CollectiveSchedule& schedule);

}  // namespace tutti::schedule
