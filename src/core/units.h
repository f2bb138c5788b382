// Numbers with units, as users write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::core {

/// "512", "4K", "1.5G" in bytes; K, M, G, T are 2^10, 2^20, 2^30, 2^40, with or without "B" or
/// "iB". Empty if it is no size.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "1.5 GiB", "512 B".
std::string format_bytes(std::uint64_t bytes);

/// "26,214,400".
std::string format_count(std::uint64_t value);

/// "3 min 12 s", "41.5 ms".
std::string format_seconds(double seconds);

}  // namespace tutti::core
