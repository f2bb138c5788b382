// Texts as lists of lines, and where two lists part.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::core {

std::vector<std::string> split_lines(const std::string& text);

/// The first line of `one` that `other` has not at the same place, and what stands there ("nothing"
/// past the end); empty if both are the same.
std::optional<std::pair<std::string, std::string>> first_difference(
    const std::vector<std::string>& one, const std::vector<std::string>& other);

}  // namespace tutti::core
