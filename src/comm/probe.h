// What operations cost here: measured once at wire-up, the same figures for every rank.
#pragma once

#include "comm/communicator.h"
#include "comm/control.h"

namespace tutti::comm {

/// Runs a few barriers and all-reduces over the whole world (each rank calls it; about 2 ms, less
/// than 5 on idle cores) and leaves rank 0's figures in the world's control block.
void probe(Communicator& world, const ControlBlock& block);

/// The price of an operation in a group of `ranks`, from the figures of the world.
Cost measured_cost(const ControlBlock& block, int ranks, Collective collective);

}  // namespace tutti::comm
