// Timelines as text and SVG.
#include "schedule/pipeline_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::schedule {
namespace {

double first_begin(const Simulation& simulation) {
  double first = simulation.spans.front().begin;
  for (const Span& span : simulation.spans) first = std::min(first, span.begin);
  return first;
}

/// Columns per unit of time that give each label its room; 0 if some action takes no time and has
/// none.
double labelled_scale(const PipelineSchedule& schedule, const Simulation& simulation) {
  double scale = 0;
  for (const auto& events : simulation.events) {
    for (const PipelineEvent& event : events) {
      const double time = event.end - event.begin;
      if (time <= 0) return 0;
      const std::size_t label = name(event.action, schedule.shape.chunks).size() + 1;
      scale = std::max(scale, static_cast<double>(label) / time);
    }
  }
  return scale;
}

std::string labelled_row(const PipelineSchedule& schedule, const std::vector<PipelineEvent>& events,
                         double first, double scale, int columns) {
  std::string row(static_cast<std::size_t>(columns), '.');
  for (const PipelineEvent& event : events) {
    const auto begin = static_cast<std::size_t>(std::lround((event.begin - first) * scale));
    const auto end =
        std::min(static_cast<std::size_t>(std::lround((event.end - first) * scale)), row.size());
    const std::string label = name(event.action, schedule.shape.chunks);
    for (std::size_t column = begin; column < end; ++column) {
      row[column] = column - begin < label.size() ? label[column - begin] : ' ';
    }
  }
  return row;
}

/// Each column shows the kind that fills most of it.
std::string dense_row(const std::vector<PipelineEvent>& events, double first, double scale,
                      int columns) {
  std::string row;
  std::size_t next = 0;
  for (int column = 0; column < columns; ++column) {
    const double begin = first + column / scale;
    const double end = first + (column + 1) / scale;
    while (next < events.size() && events[next].end <= begin) ++next;
    double busy[4] = {};  // by compute kind
    for (std::size_t at = next; at < events.size() && events[at].begin < end; ++at) {
      busy[static_cast<int>(events[at].action.kind)] +=
          std::max(0.0, std::min(end, events[at].end) - std::max(begin, events[at].begin));
    }
    const double* most = std::max_element(busy, busy + 4);
    const double idle = end - begin - busy[0] - busy[1] - busy[2] - busy[3];
    row += idle >= *most ? '.' : name(static_cast<Kind>(most - busy)).front();
  }
  return row;
}

}  // namespace

std::string draw_text(const PipelineSchedule& schedule, const Simulation& simulation, int width) {
  if (simulation.makespan <= 0) return "no time passes: nothing to draw\n";
  const int room = std::max(width, 10);
  const double first = first_begin(simulation);
  const double labelled = labelled_scale(schedule, simulation);
  const bool fits = labelled > 0 && simulation.makespan * labelled <= room;
  const double scale = fits ? labelled : room / simulation.makespan;
  const int columns = fits ? static_cast<int>(std::lround(simulation.makespan * scale)) : room;
  const std::size_t digits = fmt::format("{}", schedule.shape.stages - 1).size();
  std::string text;
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    const auto& events = simulation.events[stage];
    text += fmt::format("stage {:>{}} |{}|\n", stage, digits,
                        fits ? labelled_row(schedule, events, first, scale, columns)
                             : dense_row(events, first, scale, columns));
  }
  return text;
}

namespace {

constexpr int kLeft = 64, kHeading = 34, kRowHeight = 24, kTimeline = 1000, kLegend = 34;

std::string_view colour(const PipelineAction& action) {
  const bool second = action.chunk % 2 == 1;  // a shade apart, so that chunks can be told
  switch (action.kind) {
    case Kind::Forward:
      return second ? "#7fb0e6" : "#4a86d0";
    case Kind::Backward:
      return second ? "#8fd0a0" : "#4fae6a";
    case Kind::BackwardInput:
      return second ? "#f0c070" : "#e09a2a";
    default:
      return second ? "#d3a3d8" : "#ad68b5";
  }
}

std::string svg_event(const PipelineEvent& event, double first, double scale, int y) {
  const double x = kLeft + (event.begin - first) * scale;
  const double wide = (event.end - event.begin) * scale;
  std::string text = fmt::format(
      "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" stroke=\"#fff\" "
      "stroke-width=\".5\"/>\n",
      x, y, wide, kRowHeight - 4, colour(event.action));
  const std::string label = std::to_string(event.action.microbatch);
  if (wide >= 7.0 * static_cast<double>(label.size()) + 2) {
    text +=
        fmt::format("<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\" fill=\"#fff\">{}</text>\n",
                    x + wide / 2, y + 14, label);
  }
  return text;
}

std::string svg_legend(int y) {
  std::string text;
  int x = kLeft;
  for (const auto& [kind, words] :
       {std::pair{Kind::Forward, "forward"}, std::pair{Kind::Backward, "backward"},
        std::pair{Kind::BackwardInput, "input gradient"},
        std::pair{Kind::BackwardWeight, "weight gradient"}}) {
    text += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n"
        "<text x=\"{}\" y=\"{}\">{}</text>\n",
        x, y, colour({kind}), x + 17, y + 10, words);
    x += 150;
  }
  return text;
}

/// One timeline with its heading, `scale` pixels per unit of time, from `top` down.
std::string svg_panel(const Panel& panel, double scale, int top) {
  const PipelineShape& shape = panel.schedule.shape;
  const double first = first_begin(panel.simulation);
  std::string svg = fmt::format(
      "<text x=\"{}\" y=\"{}\" font-size=\"14\">{}: {} stages, {} micro-batches{}; bubble {:.1f} % "
      "by "
      "stage span, {:.1f} % by makespan</text>\n",
      kLeft, top + 20, panel.schedule.name, shape.stages, shape.microbatches,
      shape.chunks > 1 ? fmt::format(", {} chunks", shape.chunks) : "",
      100 * panel.simulation.bubble, 100 * panel.simulation.bubble_global);
  for (int stage = 0; stage < shape.stages; ++stage) {
    const int y = top + kHeading + stage * kRowHeight;
    svg += fmt::format("<text x=\"8\" y=\"{}\">stage {}</text>\n", y + 14, stage);
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"#ddd\"/>\n",
                       kLeft, y, panel.simulation.makespan * scale, kRowHeight - 4);
    for (const PipelineEvent& event : panel.simulation.events[stage])
      svg += svg_event(event, first, scale, y);
  }
  return svg;
}

}  // namespace

std::string draw_svg(const std::vector<Panel>& panels) {
  double longest = 0;
  int height = 0;
  for (const Panel& panel : panels) {
    longest = std::max(longest, panel.simulation.makespan);
    height += kHeading + panel.schedule.shape.stages * kRowHeight;
  }
  const double scale = longest > 0 ? kTimeline / longest : 0;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      kLeft + kTimeline + 10, height + kLegend);
  int top = 0;
  for (const Panel& panel : panels) {
    svg += svg_panel(panel, scale, top);
    top += kHeading + panel.schedule.shape.stages * kRowHeight;
  }
  return svg + svg_legend(height + 12) + "</svg>\n";
}

}  // namespace tutti::schedule
