// Every rank has a part for every other rank. Part sizes are free (schedule/shares.h, Parts).
#pragma once

#include "schedule/shares.h"
#include "schedule/team.h"

namespace tutti::schedule {

/// Messages in P - 1 rounds: in round k rank r sends to r + k and receives from r - k, so nobody is
/// flooded.
void ring_all_to_all(StepBuilder& out, const Team& team, const Parts& parts);

/// Over shared memory: every rank copies its parts out of all Inputs. 2 syncs.
void direct_all_to_all(StepBuilder& out, const Team& team, const Parts& parts);

}  // namespace tutti::schedule
