// The table of keys, read from left to right.
#include "config/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/key.h"
#include "core/lines.h"

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
  std::string section;
  for (std::string line : core::split_lines(printed)) {
    line.resize(std::min(line.find("  #"), line.size()));  // comments stand apart by two spaces
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.starts_with('[')) section = line;
    if (line.find('=') != std::string::npos) result.push_back(section + " " + line);
  }
  return result;
}

}  // namespace tutti::config
