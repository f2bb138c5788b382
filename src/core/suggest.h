// "Did you mean ...": the nearest known name.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti::core {

/// The known name with the smallest edit distance to `name`; empty if none is within half of its
/// length.
std::string nearest(std::string_view name, std::span<const std::string> known);

}  // namespace tutti::core
