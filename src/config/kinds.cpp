// The kinds of values a key can have: how each is read, checked and written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "config/key.h"
#include "config/toml_text.h"
#include "core/suggest.h"
#include "core/units.h"

namespace tutti::config {
namespace {

Complaint not_built(std::string_view part, std::string_view key, std::string_view cure) {
  return fmt::format("needs {}, which is not built yet: set {} = {}.", part, key, cure);
}

/// "a whole number of at least 1", "a whole number from 0 to 3".
std::string wanted(std::int64_t min, std::int64_t max, std::int64_t unbounded) {
  if (max == unbounded) return fmt::format("a whole number of at least {}", min);
  return fmt::format("a whole number from {} to {}", min, max);
}

std::string wanted(const Reals& range) {
  std::string text =
      fmt::format("a number {} {}", range.above_min ? "above" : "of at least", range.min);
  if (range.max < Reals{}.max) {
    text += fmt::format(" and {} {}", range.below_max ? "below" : "at most", range.max);
  }
  return text;
}

bool inside(double value, const Reals& range) {  // false for NaN
  return (range.above_min ? value > range.min : value >= range.min) &&
         (range.below_max ? value < range.max : value <= range.max);
}

template <class T>
std::function<std::optional<std::string>(const RunConfig&)> plain(Field<T> field) {
  return [field](const RunConfig& config) -> std::optional<std::string> {
    return fmt::format("{}", field.view(config));
  };
}

std::function<std::optional<std::string>(const RunConfig&)> in_quotes(Field<std::string> field) {
  return [field](const RunConfig& config) { return toml_string(field.view(config)); };
}

}  // namespace

Kind whole(Field<int> field, int min, int max) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const auto* value = node.as_integer();
    if (value == nullptr || value->get() < min || value->get() > max) {
      return fmt::format("is not {}.", wanted(min, max, 1 << 30));
    }
    field.edit(config) = static_cast<int>(value->get());
    return std::nullopt;
  };
  return {read, plain(field)};
}

Kind whole_only(Field<int> field, int built, int min, int max, std::string part) {
  const Kind all = whole(field, min, max);
  auto read = [=](std::string_view key, const toml::node& node, RunConfig& config) -> Complaint {
    const auto* value = node.as_integer();
    if (value != nullptr && value->get() >= min && value->get() <= max && value->get() != built) {
      return not_built(part, key, fmt::format("{}", built));
    }
    return all.read(key, node, config);
  };
  return {read, all.write};
}

Kind seed(Field<std::uint64_t> field) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const auto* value = node.as_integer();
    if (value == nullptr || value->get() < 0) return "is not a whole number of at least 0.";
    field.edit(config) = static_cast<std::uint64_t>(value->get());
    return std::nullopt;
  };
  return {read, plain(field)};
}

Kind real(Field<double> field, Reals range) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !inside(*value, range)) return fmt::format("is not {}.", wanted(range));
    field.edit(config) = *value;
    return std::nullopt;
  };
  auto write = [=](const RunConfig& config) { return toml_number(field.view(config)); };
  return {read, write};
}

Kind shares(Field<std::array<double, 2>> field) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const std::string rule = "is not two numbers of at least 0 and below 1, like [0.9, 0.95].";
    const auto* list = node.as_array();
    if (list == nullptr || list->size() != 2) return rule;
    std::array<double, 2> values{};
    for (std::size_t i = 0; i < 2; ++i) {
      const toml::node& item = *list->get(i);
      const auto value = item.is_number() ? item.value<double>() : std::nullopt;
      if (!value || !inside(*value, {.max = 1, .below_max = true})) return rule;
      values[i] = *value;
    }
    field.edit(config) = values;
    return std::nullopt;
  };
  auto write = [=](const RunConfig& config) {
    const auto& values = field.view(config);
    return fmt::format("[{}, {}]", toml_number(values[0]), toml_number(values[1]));
  };
  return {read, write};
}

Kind steps(Field<std::array<int, 2>> field) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const std::string rule = "is not a first and a last step, in order, like [3, 5].";
    const auto* list = node.as_array();
    if (list == nullptr || list->size() != 2) return rule;
    std::array<int, 2> values{};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto* value = list->get(i)->as_integer();
      if (value == nullptr || value->get() < 0 || value->get() > std::numeric_limits<int>::max()) {
        return rule;
      }
      values[i] = static_cast<int>(value->get());
    }
    if (values[0] > values[1]) return rule;
    field.edit(config) = values;
    return std::nullopt;
  };
  auto write = [=](const RunConfig& config) {
    return fmt::format("[{}, {}]", field.view(config)[0], field.view(config)[1]);
  };
  return {read, write};
}

Kind flag(Field<bool> field) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const auto* value = node.as_boolean();
    if (value == nullptr) return "is neither true nor false.";
    field.edit(config) = value->get();
    return std::nullopt;
  };
  return {read, plain(field)};
}

Kind text(Field<std::string> field) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const auto* value = node.as_string();
    if (value == nullptr) return "is no text: put it in double quotes.";
    field.edit(config) = value->get();
    return std::nullopt;
  };
  return {read, in_quotes(field), BareText::Always};
}

Kind bytes(Field<std::string> field) {
  auto read = [=](std::string_view, const toml::node& node, RunConfig& config) -> Complaint {
    const auto* value = node.as_string();
    const auto size = value == nullptr ? std::nullopt : core::parse_bytes(value->get());
    const bool empty = value != nullptr && value->get().empty();
    if (!empty && (!size || *size == 0))
      return R"(is no number of bytes like "1.5G", nor empty ("").)";
    field.edit(config) = value->get();
    return std::nullopt;
  };
  return {read, in_quotes(field), BareText::Always};
}

Kind choice(Field<std::string> field, std::vector<std::string> built, std::vector<NotBuilt> later) {
  std::vector<std::string> names = built;
  for (const NotBuilt& value : later) names.push_back(value.value);
  auto read = [=](std::string_view key, const toml::node& node, RunConfig& config) -> Complaint {
    const auto* value = node.as_string();
    const std::string given = value == nullptr ? "" : value->get();
    for (const NotBuilt& other : later) {
      if (value != nullptr && given == other.value) {
        return not_built(other.part, key, toml_string(built.front()));
      }
    }
    if (std::find(built.begin(), built.end(), given) != built.end()) {
      field.edit(config) = given;
      return std::nullopt;
    }
    std::string complaint = fmt::format("is none of \"{}\".", fmt::join(names, "\", \""));
    const std::string near = core::nearest(given, names);
    if (!near.empty()) complaint += fmt::format(" Did you mean {}?", toml_string(near));
    return complaint;
  };
  return {read, in_quotes(field), BareText::Always};
}

}  // namespace tutti::config
