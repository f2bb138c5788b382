// Ring collectives: every rank passes shares to the next one. P ranks, n elements.
#pragma once

#include "schedule/rotation.h"

namespace tutti::schedule {

/// Rank r ends with the sum in share r. P - 1 rounds, each rank sends all shares but one: (P-1)/P n
/// elements. Share k is added in the order k+1, k+2, ..., k (modulo P): the bits of an element
/// depend on its position.
Rotation ring_reduce_scatter(int ranks);

/// Rank r starts with share r and ends with all. P - 1 rounds, (P-1)/P n elements sent.
Rotation ring_all_gather(int ranks);

/// Both, one after the other: 2(P - 1) rounds, 2(P-1)/P n elements sent.
Rotation ring_all_reduce(int ranks);

}  // namespace tutti::schedule
