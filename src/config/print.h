// RunConfig -> TOML: every key with its value and a comment. parse(print(c)) == c, so
// RUN/config.toml is complete.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"

namespace tutti::config {

std::string print(const RunConfig& config);

/// What a printed config says, a key each and without comments: "[optim] lr = 0.001".
std::vector<std::string> statements(const std::string& printed);

/// The first statement of `one` that `other` does not make at the same place, and what stands there
/// ("nothing" past the end); empty if both say the same.
std::optional<std::pair<std::string, std::string>> first_difference(
    const std::vector<std::string>& one, const std::vector<std::string>& other);

}  // namespace tutti::config
