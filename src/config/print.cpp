// The table of keys, read from left to right.
#include "config/print.h"

#include <fmt/format.h>

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

}  // namespace tutti::config
