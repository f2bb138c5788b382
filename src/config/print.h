// RunConfig -> TOML: every key with its value and a comment. parse(print(c)) == c, so
// RUN/config.toml is complete.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"

namespace tutti::config {

std::string print(const RunConfig& config);

/// What a printed config says, a key each and without comments: "[optim] lr = 0.001".
std::vector<std::string> statements(const std::string& printed);

}  // namespace tutti::config
