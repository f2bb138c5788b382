// TOML text of single values.
#include "config/toml_text.h"

#include <fmt/format.h>

#include <sstream>

namespace tutti::config {

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // n: inf and nan have no point
  return text;
}

std::string shown(const toml::node& node) {
  if (const auto* string = node.as_string()) return toml_string(string->get());
  if (const auto* real = node.as_floating_point()) return toml_number(real->get());
  if (const auto* whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* array = node.as_array()) {
    std::string text;
    for (const toml::node& item : *array) text += (text.empty() ? "" : ", ") + shown(item);
    return "[" + text + "]";
  }
  if (node.is_table()) return "{...}";
  std::ostringstream date;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                  toml::is_date_time<decltype(value)>) {
      date << value.get();
    }
  });
  return date.str();
}

}  // namespace tutti::config
