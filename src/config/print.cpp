// The table of keys, read from left to right.
#include "config/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "config/key.h"

namespace tutti::config {

std::string print(const RunConfig& config) {
  std::string out;
  std::string_view section;
  for (const Key& key : all_keys()) {
    if (key.section != section) {
      out += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section);
      section = key.section;
    }
    const auto value = key.kind.write(config);
    const std::string line =
        value ? fmt::format("{} = {}", key.name, *value) : fmt::format("# {} =", key.name);
    out += fmt::format("{:<30}  # {}\n", line, key.comment);
  }
  return out;
}

std::vector<std::string> statements(const std::string& printed) {
  std::vector<std::string> result;
  std::istringstream lines(printed);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find("  #"), line.size()));  // comments stand apart by two spaces
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.starts_with('[')) section = line;
    if (line.find('=') != std::string::npos) result.push_back(section + " " + line);
  }
  return result;
}

std::optional<std::pair<std::string, std::string>> first_difference(
    const std::vector<std::string>& one, const std::vector<std::string>& other) {
  const auto [a, b] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  if (a == one.end() && b == other.end()) return std::nullopt;
  const auto said = [](auto at, auto end) { return at == end ? std::string("nothing") : *at; };
  return std::pair(said(a, one.end()), said(b, other.end()));
}

}  // namespace tutti::config
