// The rare paths of the scanner, and where texts may be cut.
#include "data/scanner.h"

#include <stdexcept>

namespace tutti::data {
namespace {

std::string describe_invalid(std::string_view text, std::size_t offset, std::uint64_t shift) {
  return fmt::format(
      "byte {} (0x{:02x}) begins no UTF-8 character: this tokenizer reads UTF-8 only. Convert the "
      "text (iconv -f ENCODING -t UTF-8), or take --tokenizer bytes.",
      shift + offset, static_cast<unsigned char>(text[offset]));
}

}  // namespace

InvalidUtf8::InvalidUtf8(std::string_view text, std::size_t offset, std::uint64_t shift)
    : core::ConfigError(describe_invalid(text, offset, shift)), offset_(shift + offset) {}

Scanner::Scanner(const ClassTable& classes, std::string_view text)
    : classes_(classes), text_(text), at_(text.data()), end_(text.data() + text.size()) {
  for (std::size_t code = 0; code < ascii_.size(); ++code) {
    ascii_[code] = classes[static_cast<char32_t>(code)];
  }
}

Scanner::Seen Scanner::character_at(const char* place) const {
  const auto offset = static_cast<std::size_t>(place - text_.data());
  const Character character = decode_utf8(text_.substr(offset));
  if (character.bytes == 0) throw InvalidUtf8(text_, offset);
  return {classes_[character.code], character.bytes};
}

std::size_t Scanner::contraction() const {
  const auto behind = [&](std::ptrdiff_t i) { return end_ - at_ > i ? at_[i] : '\0'; };
  switch (behind(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return behind(2) == 'e' ? 3 : 0;
    case 'l':
      return behind(2) == 'l' ? 3 : 0;
    default:
      return 0;
  }
}

const char* Scanner::before(const char* place) {
  do {
    --place;
  } while ((static_cast<Byte>(*place) & 0xC0) == 0x80);
  return place;
}

std::optional<std::size_t> find_cut(const ClassTable& classes, std::string_view text,
                                    std::size_t from, std::size_t to) {
  if (from > to || to > text.size()) {
    throw std::invalid_argument(
        fmt::format("a cut in bytes {} to {} of {}", from, to, text.size()));
  }
  constexpr std::size_t kLongestCharacter = 4;
  bool known = false;  // whether a character ends at `place`, of class `last`
  CharClass last = CharClass::Other;
  std::size_t place = from < kLongestCharacter ? 0 : from - kLongestCharacter;
  while (place <= to && place < text.size()) {
    const Character character = decode_utf8(text.substr(place));
    if (character.bytes == 0) {  // ill-formed, or the middle of a character at the beginning
      known = false;
      ++place;
      continue;
    }
    const CharClass kind = classes[character.code];
    const bool parts = last != kind && last != CharClass::Space &&
                       (kind == CharClass::Space || last != CharClass::Other);
    if (known && parts && place >= from) return place;
    known = true;
    last = kind;
    place += static_cast<std::size_t>(character.bytes);
  }
  return std::nullopt;
}

}  // namespace tutti::data
