// UTF-8 to code points, and code points to the classes that GPT-2's pattern knows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti::data {

/// What a code point is to the pattern. Unassigned and private ones are Other.
enum class CharClass : std::uint8_t { Other, Letter, Number, Space };

/// One character of UTF-8.
struct Character {
  char32_t code = 0;
  int bytes = 0;  // 1 .. 4; 0: no well-formed UTF-8 begins here
};

/// The character that `text` begins with, as RFC 3629 allows it: no overlong forms, no surrogates,
/// nothing above U+10FFFF. An empty text has none.
Character decode_utf8(std::string_view text);

/// Where the first ill-formed sequence begins; empty if the text is UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// The class of every code point in two lookups. Immutable once made; about 30 KiB.
class ClassTable {
 public:
  ClassTable();

  /// `code` <= U+10FFFF.
  [[nodiscard]] CharClass operator[](char32_t code) const {
    return pages_[page_of_[code >> kPageBits] * kPageSize + (code & (kPageSize - 1))];
  }

 private:
  static constexpr int kPageBits = 8;
  static constexpr std::size_t kPageSize = std::size_t{1} << kPageBits;
  static constexpr std::size_t kNumCodes = 0x110000;

  std::array<std::uint16_t, kNumCodes / kPageSize> page_of_{};
  std::vector<CharClass> pages_;  // those that differ
};

}  // namespace tutti::data
