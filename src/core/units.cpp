// Sizes, counts and times as text.
#include "core/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace tutti::core {
namespace {

constexpr std::string_view kPrefixes = "KMGT";

/// 2^10, 2^20, 2^30 or 2^40 for "", "K", "KB", "KiB" ...; 0 if it is no unit.
std::uint64_t unit_bytes(std::string_view unit) {
  std::uint64_t bytes = 1;
  if (!unit.empty()) {
    const auto place =
        kPrefixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    if (place != std::string_view::npos) {
      bytes = std::uint64_t{1} << (10 * (place + 1));
      unit.remove_prefix(1);
      if (unit == "iB") return bytes;
    }
  }
  return unit.empty() || unit == "B" ? bytes : 0;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const double bytes = number * static_cast<double>(unit_bytes(text));
  if (unit_bytes(text) == 0 || bytes >= 0x1p64 || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t prefix = 0;
  while (value >= 1023.95 && prefix + 1 < kPrefixes.size()) {  // 1023.95 would be printed as 1024.0
    value /= 1024;
    ++prefix;
  }
  return fmt::format("{:.1f} {}iB", value, kPrefixes[prefix]);
}

std::string format_count(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t place = text.size(); place > 3;) {
    place -= 3;
    text.insert(place, ",");
  }
  return text;
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return "-" + format_seconds(-seconds);
  if (seconds < 0.9995e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace tutti::core
