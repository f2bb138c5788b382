// What `tutti schedule all-reduce ...` says about a collective: proof, price and picture in one
// document.
#pragma once

#include <string>

#include "core/json.h"
#include "schedule/collective.h"
#include "schedule/collective_cost.h"
#include "schedule/collective_verify.h"

namespace tutti::schedule {

struct CollectiveReport {
  CollectiveSchedule schedule;
  CollectiveVerdict verdict;
  CollectiveCost cost;
};

/// Generates and proves. Throws core::ConfigError with all of check()'s problems, and for more
/// ranks than can be proven in some seconds: 65,536 in a ring, 512 in an all-to-all, 1,024 or 4,096
/// elsewhere.
CollectiveReport report(const CollectiveRequest& request);

/// For the terminal: what it is, what it costs, the verdict, the step table.
std::string describe(const CollectiveReport& report);

/// {"operation","algorithm","ranks","elements","rounds","moved_elements","added_elements","scratch_elements","slots",
/// "smallest_slots","deadlock_free","ok","fault","text"}; fault and text are null where there is
/// none.
core::Json to_json(const CollectiveReport& report);

}  // namespace tutti::schedule
