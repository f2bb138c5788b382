// Pages of the class table are shared: most of Unicode is all letters or all others.
#include "data/unicode.h"

#include <algorithm>
#include <map>
#include <span>

#include "data/unicode_ranges.h"

namespace tutti::data {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

Character decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const int bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < static_cast<std::size_t>(bytes)) return {};
  char32_t code = lead & (0x7F >> bytes);
  for (int i = 1; i < bytes; ++i) {
    if (!is_continuation(byte(static_cast<std::size_t>(i)))) return {};
    code = code << 6 | (byte(static_cast<std::size_t>(i)) & 0x3F);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, bytes};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t place = 0;
  while (place < text.size()) {
    if (static_cast<unsigned char>(text[place]) < 0x80) {
      ++place;
      continue;
    }
    const int bytes = decode_utf8(text.substr(place)).bytes;
    if (bytes == 0) return place;
    place += static_cast<std::size_t>(bytes);
  }
  return std::nullopt;
}

ClassTable::ClassTable() {
  std::vector<CharClass> all(kNumCodes, CharClass::Other);
  const auto fill = [&](std::span<const CodeRange> ranges, CharClass kind) {
    for (const CodeRange& range : ranges) {
      std::fill(all.begin() + range.first, all.begin() + range.last + 1, kind);
    }
  };
  fill(kLetters, CharClass::Letter);
  fill(kNumbers, CharClass::Number);
  fill(kSpaces, CharClass::Space);

  std::map<std::vector<CharClass>, std::uint16_t> known;
  for (std::size_t page = 0; page < page_of_.size(); ++page) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(page * kPageSize);
    std::vector<CharClass> content(begin, begin + kPageSize);
    const auto [entry, is_new] =
        known.try_emplace(std::move(content), static_cast<std::uint16_t>(known.size()));
    if (is_new) pages_.insert(pages_.end(), entry->first.begin(), entry->first.end());
    page_of_[page] = entry->second;
  }
}

}  // namespace tutti::data
