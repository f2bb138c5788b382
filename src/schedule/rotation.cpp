// Turns a rotation into the list of one rank.
#include "schedule/rotation.h"

namespace tutti::schedule {

void expand(const Rotation& rotation, const Team& team, const Shares& shares, StepBuilder& out) {
  const auto turn = [&team](int by) { return (team.index + by) % team.size(); };
  out.next();
  for (const RotatedStep& entry : rotation) {
    out.round(entry.step);
    out.add({.verb = entry.verb,
             .peers = {team.rank(turn(entry.peer)), 1},
             .slice = shares[static_cast<std::size_t>(turn(entry.share))]});
  }
  out.next();
}

}  // namespace tutti::schedule
