// JSON as used for every file that tutti writes: keys keep the order in which they were set.
#pragma once

#include <nlohmann/json.hpp>

namespace tutti::core {
using Json = nlohmann::ordered_json;
}  // namespace tutti::core
