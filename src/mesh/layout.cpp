// Layouts as JSON and as text, and the arithmetic of ranks.
#include "mesh/layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "core/suggest.h"

namespace tutti::mesh {
namespace {

using core::ConfigError;
using core::Json;
using core::Problem;

constexpr int kLargestAxis = 1'000'000;
constexpr int kLargestZero = 3;
constexpr int kLargestMicro = 1'000'000;
constexpr std::array<std::string_view, 3> kRecompute = {"none", "selective", "full"};

/// Product of the sizes of these axes; stays at the largest int instead of overflowing.
int product(const Layout& layout, const std::vector<Axis>& axes) {
  std::int64_t ranks = 1;
  for (const Axis axis : axes) {
    ranks = std::min<std::int64_t>(ranks * layout.size(axis), std::numeric_limits<int>::max());
  }
  return static_cast<int>(ranks);
}

std::vector<Axis> without_dp(std::vector<Axis> axes) {
  std::erase(axes, Axis::Dp);
  return axes;
}

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int read_int(const Json& json, const std::string& key, int low, int high) {
  const auto value = json.find(key);
  if (value == json.end()) throw ConfigError(fmt::format("layout: \"{}\" is missing", key));
  if (!value->is_number_integer() || *value < low || *value > high) {
    throw ConfigError(fmt::format("layout: \"{}\" = {} must be a whole number from {} to {}", key,
                                  value->dump(), low, high));
  }
  return value->get<int>();
}

/// Every axis but ep exactly once: ep lies inside dp x cp and multiplies nothing.
std::vector<Axis> read_order(const Json& json) {
  const auto list = json.find("order");
  if (list == json.end() || !list->is_array()) {
    throw ConfigError("layout: the list \"order\" is missing");
  }
  std::vector<Axis> order;
  for (const Json& value : *list) {
    const auto axis = value.is_string() ? axis_from_name(value.get<std::string>()) : std::nullopt;
    if (!axis || *axis == Axis::Ep || std::count(order.begin(), order.end(), *axis) != 0) {
      throw ConfigError(fmt::format(
          "layout: \"order\" holds {}: it lists dp, tp, pp and cp, each once", value.dump()));
    }
    order.push_back(*axis);
  }
  if (order.size() != Layout{}.order.size()) {
    throw ConfigError(fmt::format(
        "layout: \"order\" has {} axes: it lists dp, tp, pp and cp, each once", order.size()));
  }
  return order;
}

std::string read_recompute(const Json& json) {
  const Json value = json.value("recompute", Json("none"));
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  if (std::find(kRecompute.begin(), kRecompute.end(), name) == kRecompute.end()) {
    throw ConfigError(fmt::format("layout: \"recompute\" is {}: it is one of {}", value.dump(),
                                  fmt::join(kRecompute, ", ")));
  }
  return name;
}

bool read_flag(const Json& json, const char* key) {
  const Json value = json.value(key, Json(true));
  if (!value.is_boolean()) {
    throw ConfigError(fmt::format("layout: \"{}\" is {}: it is true or false", key, value.dump()));
  }
  return value.get<bool>();
}

/// Sets one key=value of a LAYOUT; empty, or what is wrong with it.
std::string set_key(Layout& layout, const std::string& key, std::string_view value) {
  int low = 1;
  int high = kLargestAxis;
  int* target = nullptr;
  if (const auto axis = axis_from_name(key)) {
    target = &layout.sizes[*axis];
  } else if (key == "zero") {
    target = &layout.zero;
    low = 0;
    high = kLargestZero;
  } else if (key == "zero_shard") {
    target = &layout.zero_shard;
    low = 0;
  } else if (key == "micro") {
    target = &layout.micro;
    high = kLargestMicro;
  } else if (key == "recompute") {
    if (std::find(kRecompute.begin(), kRecompute.end(), value) == kRecompute.end()) {
      return fmt::format("recompute = \"{}\" is none of {}.", value, fmt::join(kRecompute, ", "));
    }
    layout.recompute = value;
    return {};
  } else if (key == "share_pages" || key == "sequence") {
    if (value != "true" && value != "false") {
      return fmt::format("{} = \"{}\" is neither true nor false.", key, value);
    }
    (key == "sequence" ? layout.sequence : layout.share_pages) = value == "true";
    return {};
  } else {
    static const std::vector<std::string> known = {
        "dp",         "tp",    "pp",          "cp",        "ep",      "zero",
        "zero_shard", "micro", "share_pages", "recompute", "sequence"};
    const std::string near = core::nearest(key, known);
    return fmt::format("no key \"{}\"{}. A layout knows {}.", key,
                       near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                       fmt::join(known, ", "));
  }
  const auto number = parse_int(value);
  if (!number || *number < low || *number > high) {
    return fmt::format("{} = \"{}\" must be a whole number from {} to {}.", key, value, low, high);
  }
  *target = *number;
  return {};
}

}  // namespace

int Layout::size(Axis axis) const {
  const auto found = sizes.find(axis);
  return found == sizes.end() ? 1 : found->second;
}

int Layout::ranks() const { return product(*this, order); }

int Layout::shards() const {
  return zero > 0 && zero_shard > 0 ? zero_shard : size(Axis::Dp) * size(Axis::Cp);
}

int Layout::ranks_or(int otherwise) const {
  const int others = product(*this, without_dp(order));
  const int dp = size(Axis::Dp);
  if (dp == 0 && others == 1) return otherwise;
  return dp == 0 ? others : ranks();
}

Json to_json(const Layout& layout) {
  Json json;
  for (const Axis axis : kAxes) json[std::string(name(axis))] = layout.size(axis);
  Json& order = json["order"] = Json::array();
  for (const Axis axis : layout.order) order.push_back(name(axis));
  json["zero"] = layout.zero;
  json["zero_shard"] = layout.zero_shard;
  json["micro"] = layout.micro;
  json["share_pages"] = layout.share_pages;
  json["sequence"] = layout.sequence;
  json["recompute"] = layout.recompute;
  return json;
}

Layout layout_from_json(const Json& json) {
  if (!json.is_object()) throw ConfigError("layout: an object is expected");
  Layout layout;
  for (const Axis axis : kAxes) {
    layout.sizes[axis] = read_int(json, std::string(name(axis)), 1, kLargestAxis);
  }
  layout.order = read_order(json);
  layout.zero = read_int(json, "zero", 0, kLargestZero);
  layout.zero_shard =
      json.contains("zero_shard") ? read_int(json, "zero_shard", 0, kLargestAxis) : 0;
  layout.micro = read_int(json, "micro", 1, kLargestMicro);
  layout.share_pages = read_flag(json, "share_pages");
  layout.sequence = read_flag(json, "sequence");
  layout.recompute = read_recompute(json);
  return layout;
}

std::string describe(const Layout& layout) {
  std::string text;
  for (const Axis axis : kAxes) {
    if (layout.size(axis) != 1) text += fmt::format("{}{} ", name(axis), layout.size(axis));
  }
  if (text.empty()) text = "dp1 ";
  text += fmt::format("zero{} ", layout.zero);
  if (layout.zero_shard > 0) text += fmt::format("shards{} ", layout.zero_shard);
  text += fmt::format("micro{}", layout.micro);
  if (!layout.share_pages) text += " own-pages";
  if (layout.size(Axis::Tp) > 1 && !layout.sequence) text += " whole-rows";
  if (layout.recompute != "none") text += " recompute-" + layout.recompute;
  if (layout.order != Layout{}.order) {
    text += " order";
    for (const Axis axis : layout.order) text += fmt::format("-{}", name(axis));
  }
  return text;
}

Layout parse_layout(std::string_view text, const Layout& base, std::vector<Problem>& problems) {
  Layout layout = base;
  for (const Axis axis : kAxes) layout.sizes[axis] = 1;
  layout.sizes[Axis::Dp] = 0;
  std::vector<std::string> seen;
  const auto refuse = [&](const std::string& why) {
    problems.push_back({fmt::format("layout \"{}\": {}", text, why)});
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      refuse(fmt::format("\"{}\" is not key=value. Write it like tp=2,dp=2,zero=1.", item));
      continue;
    }
    const std::string key(item.substr(0, equals));
    if (std::count(seen.begin(), seen.end(), key) != 0) {
      refuse(fmt::format("{} is given twice.", key));
      continue;
    }
    seen.push_back(key);
    const std::string wrong = set_key(layout, key, item.substr(equals + 1));
    if (!wrong.empty()) refuse(wrong);
  }
  return layout;
}

Layout fill_dp(Layout layout, int ranks, std::vector<Problem>& problems) {
  const std::vector<Axis> others = without_dp(layout.order);
  std::vector<std::string> factors;
  for (const Axis axis : others) {
    if (layout.size(axis) > 1) {
      factors.push_back(fmt::format("{} = {}", name(axis), layout.size(axis)));
    }
  }
  const int other = product(layout, others);
  const int below = ranks / other * other;
  const int dp = layout.size(Axis::Dp);
  if (ranks < 1) {
    problems.push_back({fmt::format("{} ranks: a run needs at least 1.", ranks)});
  } else if (ranks % other != 0) {
    problems.push_back({fmt::format(
        "{} ranks cannot be dealt out: {} need a multiple of {} ranks. Use {}.", ranks,
        fmt::join(factors, ", "), other,
        below == 0
            ? fmt::format("{} ranks", other)
            : fmt::format("{} or {} ranks", below, static_cast<std::int64_t>(below) + other))});
  } else if (dp != 0 && dp != ranks / other) {
    problems.push_back({fmt::format(
        "dp = {} contradicts {} ranks: {}dp must be {}. Leave dp out, or use {} ranks.", dp, ranks,
        factors.empty() ? "" : fmt::format("with {} ", fmt::join(factors, ", ")), ranks / other,
        layout.ranks())});
  } else {
    layout.sizes[Axis::Dp] = ranks / other;
  }
  return layout;
}

}  // namespace tutti::mesh
