// This build's version, as files and messages give it.
#pragma once

#include <string>

namespace tutti::core {
/// "0.1.0".
std::string version();
}  // namespace tutti::core
