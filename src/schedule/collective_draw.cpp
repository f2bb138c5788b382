// Pictures of schedule/collective_draw.h.
#include "schedule/collective_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tutti::schedule {
namespace {

std::string span_of(const CollectiveStep& step) {
  static constexpr std::string_view kPlaces[] = {"", "i", "s"};
  return fmt::format("{}{}:{}", kPlaces[static_cast<int>(step.space)], step.slice.begin,
                     step.slice.end);
}

std::string peers_of(const Peers& peers) {
  if (peers.count == 1) return fmt::format("{}", peers.first);
  const std::string by = peers.stride == 1 ? "" : fmt::format("/{}", peers.stride);
  return fmt::format("{}-{}{}", peers.first, peers.rank(peers.count - 1), by);
}

std::string word(const CollectiveStep& step) {
  switch (step.verb) {
    case Verb::Send:
      return fmt::format(">{} {}", step.peers.first, span_of(step));
    case Verb::Recv:
      return fmt::format("<{} {}", step.peers.first, span_of(step));
    case Verb::RecvAdd:
      return fmt::format("+{} {}", step.peers.first, span_of(step));
    case Verb::Publish:
      return fmt::format("!{}", step.mark);
    case Verb::Await:
      return fmt::format("?{}", peers_of(step.peers));
    case Verb::ReduceFrom:
      return fmt::format("sum {} {}", peers_of(step.peers), span_of(step));
    case Verb::StoreTo:
      return fmt::format("put {} {}", peers_of(step.peers), span_of(step));
    case Verb::CopyFrom:
      return fmt::format("get {} {}", peers_of(step.peers), span_of(step));
  }
  return "";
}

// What both pictures show: the first ranks' lists by step.
struct Grid {
  int columns = 0;
  int left_out_ranks = 0;
  int left_out_steps = 0;
  std::map<int, std::vector<std::vector<CollectiveStep>>> rows;  // step -> entries by rank
};

Grid grid_of(const CollectiveSchedule& schedule, int columns, int rows) {
  Grid grid;
  grid.columns = std::min(columns, schedule.request.ranks);
  grid.left_out_ranks = schedule.request.ranks - grid.columns;
  for (int rank = 0; rank < grid.columns; ++rank) {
    for (const CollectiveStep& step : schedule.list(rank)) {
      if (skipped(step)) continue;
      auto& row = grid.rows[step.step];
      row.resize(static_cast<std::size_t>(grid.columns));
      row[static_cast<std::size_t>(rank)].push_back(step);
    }
  }
  while (static_cast<int>(grid.rows.size()) > rows) {
    grid.rows.erase(std::prev(grid.rows.end()));
    ++grid.left_out_steps;
  }
  return grid;
}

std::string cell(const std::vector<CollectiveStep>& entries) {
  std::string text;
  for (const CollectiveStep& step : entries) text += (text.empty() ? "" : ", ") + word(step);
  return text;
}

std::string left_out(const Grid& grid) {
  std::string text;
  if (grid.left_out_ranks > 0) text += fmt::format("{} more ranks", grid.left_out_ranks);
  if (grid.left_out_steps > 0) {
    text += fmt::format("{}{} more steps", text.empty() ? "" : ", ", grid.left_out_steps);
  }
  return text;
}

constexpr int kColumn = 150;  // pixels
constexpr int kRow = 40;
constexpr int kLeft = 60;
constexpr int kTop = 40;

int x_of(int rank) { return kLeft + rank * kColumn + kColumn / 2; }

// One message, from the sender's line down to the receiver's; a receiver that is not drawn gets a
// short stub.
std::string arrow(const Grid& grid, int rank, const CollectiveStep& step, int y, bool adds) {
  const int peer = step.peers.first;
  const std::string label = fmt::format("{}:{}", step.slice.begin, step.slice.end);
  const int from = x_of(rank);
  const int to = peer < grid.columns ? x_of(peer) : from + kColumn / 3;
  return fmt::format(
      "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\" marker-end=\"url(#tip)\"/>"
      "<text x=\"{}\" y=\"{}\" class=\"small\">{}</text>\n",
      from, y, to, y + kRow - 8, adds ? "add" : "move", from + 4, y + 12, label);
}

// Whether the peer adds the k-th message that `rank` sends it to what it has.
class Receivers {
 public:
  Receivers(const CollectiveSchedule& schedule, int columns) {
    for (int rank = 0; rank < columns; ++rank) {
      for (const CollectiveStep& step : schedule.list(rank)) {
        if (receives(step.verb) && !skipped(step)) {
          adds_[{step.peers.first, rank}].push_back(step.verb == Verb::RecvAdd);
        }
      }
    }
  }
  bool next_adds(int from, int to) {
    const auto& queue = adds_[{from, to}];
    const std::size_t k = sent_[{from, to}]++;
    return k < queue.size() && queue[k];
  }

 private:
  std::map<std::pair<int, int>, std::vector<bool>> adds_;
  std::map<std::pair<int, int>, std::size_t> sent_;
};

}  // namespace

std::string step_table(const CollectiveSchedule& schedule, int columns, int rows) {
  const Grid grid = grid_of(schedule, columns, rows);
  std::vector<std::size_t> widths;
  for (int rank = 0; rank < grid.columns; ++rank) {
    std::size_t width = fmt::format("rank {}", rank).size();
    for (const auto& [step, row] : grid.rows) {
      width = std::max(width, cell(row[static_cast<std::size_t>(rank)]).size());
    }
    widths.push_back(width);
  }
  const auto line = [&](const std::string& first, auto&& text_of) {
    std::string text = fmt::format("{:>4}", first);
    for (int rank = 0; rank < grid.columns; ++rank) {
      text += fmt::format("  {:<{}}", text_of(rank), widths[static_cast<std::size_t>(rank)]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line("step", [](int rank) { return fmt::format("rank {}", rank); });
  for (const auto& [step, row] : grid.rows) {
    text += line(std::to_string(step), [&, &entries = row](int rank) {
      return cell(entries[static_cast<std::size_t>(rank)]);
    });
  }
  const std::string more = left_out(grid);
  return more.empty() ? text : text + "     (" + more + ")\n";
}

std::string step_svg(const CollectiveSchedule& schedule, int columns, int rows) {
  const Grid grid = grid_of(schedule, columns, rows);
  const int width = kLeft + grid.columns * kColumn + 20;
  const int bottom = kTop + static_cast<int>(grid.rows.size()) * kRow;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<style>.add{{stroke:#c0392b;stroke-width:1.5}}.move{{stroke:#2471a3;"
      "stroke-width:1.5}}.life{{stroke:#ccc}}.small{{font-size:10px;fill:#333}}</style>\n"
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n",
      width, bottom + 40);
  for (int rank = 0; rank < grid.columns; ++rank) {
    svg += fmt::format(
        "<text x=\"{0}\" y=\"20\" text-anchor=\"middle\">rank {1}</text>"
        "<line x1=\"{0}\" y1=\"{2}\" x2=\"{0}\" y2=\"{3}\" class=\"life\"/>\n",
        x_of(rank), rank, kTop - 10, bottom);
  }
  Receivers receivers(schedule, grid.columns);
  int y = kTop;
  for (const auto& [step, row] : grid.rows) {
    svg += fmt::format("<text x=\"8\" y=\"{}\" class=\"small\">{}</text>\n", y + 12, step);
    for (int rank = 0; rank < grid.columns; ++rank) {
      int line = 0;
      for (const CollectiveStep& entry : row[static_cast<std::size_t>(rank)]) {
        if (receives(entry.verb)) continue;  // the arrow's head says it
        if (entry.verb == Verb::Send) {
          svg += arrow(grid, rank, entry, y, receivers.next_adds(rank, entry.peers.first));
        } else if (line < 3) {
          svg += fmt::format("<text x=\"{}\" y=\"{}\" class=\"small\">{}</text>\n", x_of(rank) - 55,
                             y + 12 + 11 * line++, word(entry));
        }
      }
    }
    y += kRow;
  }
  const std::string more = left_out(grid);
  if (!more.empty()) svg += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n", bottom + 20, more);
  return svg + "</svg>\n";
}

}  // namespace tutti::schedule
