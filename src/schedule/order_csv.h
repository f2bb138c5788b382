// A user's own pipeline order as a CSV file: one action per line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/pipeline_schedule.h"

namespace tutti::schedule {

/// A schedule and where each of its actions stands in the file.
struct OrderFile {
  PipelineSchedule schedule;
  std::vector<std::vector<int>>
      lines;  // [stage][action], from 1; an added send or receive has its compute action's line
};

/// What the user said besides the file; absent: as large as the file needs.
struct OrderHints {
  std::optional<int> stages, microbatches, chunks;
};

/// Reads
///   placement,v                      (optional first line; looped is the default)
///   stage,action,microbatch,chunk    (header; chunk may be left out, and a fifth column `bytes`
///   may stand on sends and receives) 0,F,0,0
/// Actions: F, I, W, B and SF, RF, SB, RB; lines of one stage are its order, stages may be mixed.
/// Without any send or receive in the file they are added (see `complete`); with one, all must be
/// there. Empty lines and lines that begin with # are skipped. Throws core::ConfigError naming
/// every wrong line, and where a send and its receive differ in bytes. Whether the order works is
/// for verify() to say, with the lines given here.
OrderFile read_order(std::string_view text, const OrderHints& hints = {});

/// The text that read_order gives back unchanged.
std::string write_order(const PipelineSchedule& schedule);

}  // namespace tutti::schedule
