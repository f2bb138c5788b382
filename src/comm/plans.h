// Schedules as the engine runs them: made once per request, kept while they are in use.
#pragma once

#include <memory>
#include <vector>

#include "schedule/collective.h"

namespace tutti::comm {

/// One rank's part of a schedule.
struct Plan {
  schedule::CollectiveSchedule schedule;
  std::vector<schedule::CollectiveStep> steps;  // this rank's list
  bool adds_messages = false;                   // it has RecvAdd: sums travel and grow hop by hop
};

/// The plans of one group, the latest first. Training repeats some dozens of requests for hours.
class Plans {
 public:
  static constexpr std::size_t kKept = 64;
  /// Throws std::invalid_argument as schedule::generate does.
  std::shared_ptr<const Plan> get(const schedule::CollectiveRequest& request, int rank);

 private:
  std::vector<std::shared_ptr<const Plan>> kept_;
};

}  // namespace tutti::comm
