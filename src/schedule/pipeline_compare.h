// All orders side by side for one pipeline: what the folk rule "two to four micro-batches per stage
// keep the bubble under 10 %" is worth for each of them.
#pragma once

#include <string>
#include <vector>

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// What the orders are compared on.
struct CompareQuestion {
  int stages = 1;
  int microbatches = 1;
  std::vector<ActionTimes> times;  // one per stage
  double transfer = 0;
};

/// One order with one number of chunks, simulated. Bubbles by stage span.
struct ComparedOrder {
  std::string name;
  int chunks = 1;
  double peak = 0;           // of the fullest stage, micro-batches
  double bubble = 0;         // at the question's micro-batches
  double bubble_global = 0;  // the same by makespan
  double bubble_at_2p = 0;   // with twice as many micro-batches as stages
  double bubble_at_4p = 0;
  [[nodiscard]] bool rule_holds() const;  // under 10 % at 2p and at 4p
};

/// Whether comparing takes seconds at most: stages * max(microbatches, 4 * stages) <= 131,072.
bool can_compare(const CompareQuestion& question);

/// Every registered order once; interleaved with 2 and with 4 chunks; zb-auto with the memory of
/// 1F1B. Throws std::invalid_argument for a shape or times that are not valid.
std::vector<ComparedOrder> compare_orders(const CompareQuestion& question);

/// The comparison as a table with the rule's verdict per order and in one sentence.
std::string comparison_text(const CompareQuestion& question,
                            const std::vector<ComparedOrder>& orders);

}  // namespace tutti::schedule
