// Timelines of a simulated pipeline: text for the terminal, SVG for documents.
#pragma once

#include <string>
#include <vector>

#include "schedule/pipeline_simulate.h"

namespace tutti::schedule {

/// One row per stage, time from left to right, at most `width` columns of timeline (at least 10 are
/// used). Where every action gets room for its label the row reads "F0 F1 .. B0 "; else one letter
/// per column says what the stage does most in it. '.' is a stage that waits.
std::string draw_text(const PipelineSchedule& schedule, const Simulation& simulation,
                      int width = 100);

/// One timeline of a picture. Not owned.
struct Panel {
  const PipelineSchedule& schedule;
  const Simulation& simulation;
};

/// A self-contained SVG of timelines below each other on one scale: forwards, backwards, input and
/// weight gradients in four colours (a shade apart for odd chunks), waiting left grey, micro-batch
/// numbers where they fit, the two bubbles above each. Precondition: at least one panel.
std::string draw_svg(const std::vector<Panel>& panels);

}  // namespace tutti::schedule
