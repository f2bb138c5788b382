// What operations cost here: measured once at wire-up, the same figures for every rank.
#pragma once

#include "comm/communicator.h"
#include "comm/control.h"
#include "comm/engine.h"

namespace tutti::comm {

/// Runs a few barriers and all-reduces over the whole world (each rank calls it; about 2 ms, less
/// than 5 on idle cores) and leaves rank 0's figures in the world's control block.
void probe(Communicator& world, const ControlBlock& block);

/// Rank 0's table for groups of as many ranks as `world`: the sizes up to which a one-shot
/// all-reduce beat the two-shot here, measured with rewritten buffers, the slowest rank counting.
/// All ranks call it; stops early, on all ranks alike, when `budget_s` is used up.
ChoiceTable tune(Communicator& world, Engine& engine, double budget_s);

/// The price of an operation in a group of `ranks`, from the figures of the world.
Cost measured_cost(const ControlBlock& block, int ranks, Collective collective);

}  // namespace tutti::comm
