// A collective as a picture: a step table for the terminal and an SVG.
#pragma once

#include <string>

#include "schedule/collective.h"

namespace tutti::schedule {

/// One row per step number, one column per rank; ">2 0:4" sends elements [0, 4) to rank 2, "<"
/// takes, "+" takes and adds,
/// "!1" publishes mark 1, "?0-3" awaits ranks 0-3, "sum", "put" and "get" reach into peers'
/// buffers; "s" and "i" before a slice mean Scratch and Input. What moves nothing is left out.
/// Ranks beyond `columns` and steps beyond `rows` are counted instead of drawn; the lists of the
/// others are not made.
std::string step_table(const CollectiveSchedule& schedule, int columns = 12, int rows = 64);

/// Ranks from left to right, steps downwards, one arrow per message, coloured by what the receiver
/// does with it; shared memory as labelled boxes. The same limits.
std::string step_svg(const CollectiveSchedule& schedule, int columns = 32, int rows = 128);

}  // namespace tutti::schedule
