// A schedule in which all ranks do the same, turned by their rank: one list stands for all of them.
#pragma once

#include <vector>

#include "schedule/collective_step.h"
#include "schedule/shares.h"
#include "schedule/team.h"

namespace tutti::schedule {

/// An entry of every rank r at once: its peer is r + peer, its slice is share r + share, both
/// modulo the ranks.
struct RotatedStep {
  int step = 0;
  Verb verb = Verb::Send;  // Send, Recv, RecvAdd
  int peer = 0;            // 0 <= peer < ranks
  int share = 0;           // 0 <= share < ranks
  friend bool operator==(const RotatedStep&, const RotatedStep&) = default;
};

/// Ascending in step, like a list of CollectiveStep.
using Rotation = std::vector<RotatedStep>;

/// Appends the entries of the builder's rank. shares.size() == team.size().
void expand(const Rotation& rotation, const Team& team, const Shares& shares, StepBuilder& out);

}  // namespace tutti::schedule
