// The proof of a rotation: what holds for rank 0 holds, turned, for every rank.
#pragma once

#include "schedule/collective_verify.h"

namespace tutti::schedule {

/// Proves what verify() promises for all `ranks` lists that expand() makes, from the rotation
/// alone.
///
/// All ranks run the same entries, so in a run in which they take turns entry by entry they are
/// always at the same place and every queue at offset d holds equally many messages; as the outcome
/// of a run does not depend on turns, that run decides. Rank r holds in share r + j what rank 0
/// holds in share j, turned by r. Sums of a ring are runs of ranks added one after the other:
/// (first, count). `operation`: AllReduce, ReduceScatter or AllGather.
CollectiveVerdict verify_rotation(const Rotation& rotation, Operation operation, int ranks,
                                  int slots);

}  // namespace tutti::schedule
