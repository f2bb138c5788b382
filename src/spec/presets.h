// Sizes by name: `[model] preset`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "spec/options.h"

namespace tutti::spec {

/// Every preset, families together, smallest first.
const std::vector<std::pair<std::string, ModelOptions>>& all_presets();

}  // namespace tutti::spec
