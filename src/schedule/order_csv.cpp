// Lines to actions and back. Every wrong line is named, not only the first.
#include "schedule/order_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <stdexcept>

#include "core/error.h"
#include "core/suggest.h"

namespace tutti::schedule {
namespace {

constexpr int kLargest =
    1 << 20;  // of any number in the file: a typing error must not allocate a million lists

struct Line {
  int number = 0;
  int stage = 0;
  PipelineAction action{};
  std::optional<std::int64_t> bytes;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t end = text.find(separator);
    fields.push_back(trim(text.substr(0, end)));
    if (end == std::string_view::npos) return fields;
    text.remove_prefix(end + 1);
  }
}

class Reader {
 public:
  explicit Reader(const OrderHints& hints) : hints_(hints) {}

  OrderFile read(std::string_view text) {
    int number = 0;
    for (const std::string_view raw : split(text, '\n')) {
      ++number;
      if (raw.empty() || raw.front() == '#') continue;
      if (!header_seen_) {
        read_header(number, raw);
      } else {
        read_line(number, raw);
      }
    }
    if (lines_.empty() && problems_.empty()) refuse(number, "the file has no actions");
    core::throw_if_any(std::move(problems_));
    OrderFile file = build();
    check_bytes(file);
    core::throw_if_any(std::move(problems_));
    return file;
  }

 private:
  void refuse(int number, const std::string& why) {
    problems_.push_back({fmt::format("line {}: {}", number, why)});
  }

  void read_header(int number, std::string_view raw) {
    const auto fields = split(raw, ',');
    if (fields.size() == 2 && fields[0] == "placement") {
      if (fields[1] == "v" || fields[1] == "V") {
        placement_ = Placement::V;
      } else if (fields[1] != "looped") {
        refuse(number, fmt::format("placement {} is unknown: chunks are dealt out looped or in a v",
                                   fields[1]));
      }
      return;
    }
    header_seen_ = true;
    const std::vector<std::string_view> known = {"stage", "action", "microbatch", "chunk", "bytes"};
    if (fields.size() < 3 || fields.size() > known.size() ||
        !std::equal(fields.begin(), fields.end(), known.begin())) {
      refuse(number, fmt::format("header {} is not stage,action,microbatch[,chunk[,bytes]]", raw));
    }
    columns_ = fields.size();
  }

  template <typename Number>
  std::optional<Number> read_number(int number, std::string_view what, std::string_view field,
                                    Number largest) {
    Number value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc{} || end != field.data() + field.size() || value < 0 ||
        value > largest) {
      refuse(number, fmt::format("{} '{}' is not a number from 0 to {}", what, field, largest));
      return std::nullopt;
    }
    return value;
  }

  std::optional<Kind> read_kind(int number, std::string_view field) {
    std::vector<std::string> known;
    for (int kind = 0; kind <= static_cast<int>(Kind::RecvBackward); ++kind) {
      known.emplace_back(name(static_cast<Kind>(kind)));
      if (known.back() == field) return static_cast<Kind>(kind);
    }
    const std::string near = core::nearest(field, known);
    refuse(number,
           fmt::format("action '{}' is unknown: one of {}.{}", field, fmt::join(known, ", "),
                       near.empty() ? "" : fmt::format(" Did you mean {}?", near)));
    return std::nullopt;
  }

  void read_line(int number, std::string_view raw) {
    const auto fields = split(raw, ',');
    if (fields.size() < 3 || fields.size() > columns_) {
      return refuse(number,
                    fmt::format("{} fields where the header has {}", fields.size(), columns_));
    }
    const auto stage = read_number(number, "stage", fields[0], kLargest);
    const auto kind = read_kind(number, fields[1]);
    const auto microbatch = read_number(number, "micro-batch", fields[2], kLargest);
    std::optional<int> chunk = 0;
    if (fields.size() > 3) chunk = read_number(number, "chunk", fields[3], kLargest);
    if (!stage || !kind || !microbatch || !chunk) return;
    Line line{number, *stage, {*kind, *microbatch, *chunk}, {}};
    if (fields.size() > 4 && !fields[4].empty()) {
      line.bytes = read_number(number, "bytes", fields[4], INT64_MAX);
    }
    const auto limit = [&](const char* what, int value, const std::optional<int>& given) {
      if (given && value >= *given)
        refuse(number, fmt::format("{} {} is impossible with {} of them", what, value, *given));
    };
    limit("stage", line.stage, hints_.stages);
    limit("micro-batch", line.action.microbatch, hints_.microbatches);
    limit("chunk", line.action.chunk, hints_.chunks);
    lines_.push_back(line);
  }

  OrderFile build() const {
    PipelineShape shape{1, 1, 1, placement_};
    bool has_transfers = false;
    for (const Line& line : lines_) {
      shape.stages = std::max(shape.stages, line.stage + 1);
      shape.microbatches = std::max(shape.microbatches, line.action.microbatch + 1);
      shape.chunks = std::max(shape.chunks, line.action.chunk + 1);
      has_transfers = has_transfers || !is_compute(line.action.kind);
    }
    shape.stages = hints_.stages.value_or(shape.stages);
    shape.microbatches = hints_.microbatches.value_or(shape.microbatches);
    shape.chunks = hints_.chunks.value_or(shape.chunks);
    std::vector<std::vector<PipelineAction>> lists(static_cast<std::size_t>(shape.stages));
    OrderFile file;
    file.lines.resize(lists.size());
    for (const Line& line : lines_) {
      lists[line.stage].push_back(line.action);
      file.lines[line.stage].push_back(line.number);
    }
    if (has_transfers) {
      file.schedule = {"own order", shape, lists, default_slots(shape, lists)};
      return file;
    }
    file.schedule = complete("own order", shape, lists);
    for (int stage = 0; stage < shape.stages; ++stage) {
      file.lines[stage] = spread(file.schedule.actions[stage], lists[stage], file.lines[stage]);
    }
    return file;
  }

  /// The lines of compute actions, handed on to the transfers around them.
  static std::vector<int> spread(const std::vector<PipelineAction>& actions,
                                 const std::vector<PipelineAction>& compute,
                                 const std::vector<int>& lines) {
    std::vector<int> result;
    std::size_t next = 0;  // compute action that comes next
    for (const PipelineAction& action : actions) {
      const bool send = action.kind == Kind::SendForward || action.kind == Kind::SendBackward;
      result.push_back(lines[send ? next - 1 : next]);
      if (next < compute.size() && is_compute(action.kind)) ++next;
    }
    return result;
  }

  /// Sizes of the n-th send and the n-th receive of an edge, where both lines give one.
  void check_bytes(const OrderFile& file) {
    const PipelineShape& shape = file.schedule.shape;
    struct Ends {
      std::vector<const Line*> sends, receives;
    };
    std::vector<Ends> edges(static_cast<std::size_t>(num_edges(shape)));
    for (const Line& line : lines_) {
      if (is_compute(line.action.kind)) continue;
      const bool send =
          line.action.kind == Kind::SendForward || line.action.kind == Kind::SendBackward;
      try {
        Ends& ends = edges[edge_of(shape, line.stage, line.action)];
        (send ? ends.sends : ends.receives).push_back(&line);
      } catch (const std::invalid_argument& error) {
        refuse(line.number, error.what());
      }
    }
    for (const Ends& ends : edges) {
      for (std::size_t n = 0; n < std::min(ends.sends.size(), ends.receives.size()); ++n) {
        const Line& send = *ends.sends[n];
        const Line& receive = *ends.receives[n];
        if (!send.bytes || !receive.bytes || *send.bytes == *receive.bytes) continue;
        refuse(receive.number, fmt::format("receives {} bytes, but line {} sends {}",
                                           *receive.bytes, send.number, *send.bytes));
      }
    }
  }

  OrderHints hints_;
  Placement placement_ = Placement::Looped;
  bool header_seen_ = false;
  std::size_t columns_ = 0;
  std::vector<Line> lines_;
  std::vector<core::Problem> problems_;
};

}  // namespace

OrderFile read_order(std::string_view text, const OrderHints& hints) {
  return Reader(hints).read(text);
}

std::string write_order(const PipelineSchedule& schedule) {
  std::string text = schedule.shape.placement == Placement::V ? "placement,v\n" : "";
  text += "stage,action,microbatch,chunk\n";
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    for (const PipelineAction& action : schedule.actions[stage]) {
      text +=
          fmt::format("{},{},{},{}\n", stage, name(action.kind), action.microbatch, action.chunk);
    }
  }
  return text;
}

}  // namespace tutti::schedule
