// This process becomes another program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::cli {

/// Same process, environment and descriptors. Returns only by throwing core::RunError.
[[noreturn]] void exec(const std::filesystem::path& program, std::vector<std::string> args);

}  // namespace tutti::cli
