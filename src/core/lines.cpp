#include "core/lines.h"

#include <algorithm>
#include <sstream>

namespace tutti::core {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::optional<std::pair<std::string, std::string>> first_difference(
    const std::vector<std::string>& one, const std::vector<std::string>& other) {
  const auto [a, b] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  if (a == one.end() && b == other.end()) return std::nullopt;
  const auto said = [](auto at, auto end) { return at == end ? std::string("nothing") : *at; };
  return std::pair(said(a, one.end()), said(b, other.end()));
}

}  // namespace tutti::core
