// TOML and key=value overrides -> RunConfig.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "config/run_config.h"

namespace tutti::config {

/// What the config is for: a run refuses values that need a part not built yet, a plan counts them.
enum class For { Running, Planning };

/// Reads the file, applies overrides ("optim.lr=3e-4", in order) and checks every single key:
/// unknown ones (nearest named), wrong types, values out of range, values that need a part which is
/// not built yet. Throws core::ConfigError with all problems at once, each with file and line or
/// with the override.
RunConfig load(const std::filesystem::path& path, std::span<const std::string> overrides,
               For purpose = For::Running);

/// The same for text; `name` stands for the file in messages.
RunConfig parse(std::string_view toml, std::string_view name,
                std::span<const std::string> overrides, For purpose = For::Running);

}  // namespace tutti::config
