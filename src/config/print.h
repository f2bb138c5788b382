// RunConfig -> TOML: every key with its value and a comment. parse(print(c)) == c, so
// RUN/config.toml is complete.
#pragma once

#include <string>

#include "config/run_config.h"

namespace tutti::config {

std::string print(const RunConfig& config);

}  // namespace tutti::config
