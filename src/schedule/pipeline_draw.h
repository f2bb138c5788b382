// Timelines of a simulated pipeline: text for the terminal, SVG for documents.
#pragma once

#include <string>

#include "schedule/pipeline_simulate.h"

namespace tutti::schedule {

/// One row per stage, time from left to right, at most `width` columns of timeline (at least 10 are
/// used). Where every action gets room for its label the row reads "F0 F1 .. B0 "; else one letter
/// per column says what the stage does most in it. '.' is a stage that waits.
std::string draw_text(const PipelineSchedule& schedule, const Simulation& simulation,
                      int width = 100);

/// A self-contained SVG: forwards, input and weight gradients in three colours, waiting left empty,
/// micro-batch numbers where they fit, the two bubbles in the caption.
std::string draw_svg(const PipelineSchedule& schedule, const Simulation& simulation);

}  // namespace tutti::schedule
