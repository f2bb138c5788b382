// GPT-2's pre-tokens: the pieces inside which bytes are merged, found without a regular expression.
//
// The pattern, by which GPT-2's vocabulary was made:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// In words: a contraction's end in small letters; a run of letters, of numbers or of other
// characters, each with one space before it; or a run of white space, which leaves its last
// character (a space joins the next piece, any other stands alone) unless the text ends there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "data/unicode.h"

namespace tutti::data {

/// A text that is no UTF-8, by the user's mistake.
class InvalidUtf8 : public core::ConfigError {
 public:
  /// `text` is ill-formed at `offset`, counted in bytes from its beginning; `shift` more were
  /// before it.
  InvalidUtf8(std::string_view text, std::size_t offset, std::uint64_t shift = 0);
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  std::uint64_t offset_;
};

/// Cuts one text into pieces, from front to back.
class Scanner {
 public:
  /// Longest part in bytes, but for the rest of a character or a space before it.
  static constexpr std::size_t kMaxPart = std::size_t{1} << 16;

  /// A piece, or a part of one that is longer than kMaxPart: its last part ends it (and may be
  /// empty).
  struct Part {
    std::string_view text;
    bool ends_piece = true;
  };

  /// Both arguments must outlive the scanner.
  Scanner(const ClassTable& classes, std::string_view text);

  /// The next part; false at the end of the text. Throws InvalidUtf8.
  bool next(Part& part) {
    if (continues_) {
      finish(part, at_, *continues_);
      return true;
    }
    if (at_ == end_) return false;
    if (*at_ == '\'') {
      if (const std::size_t length = contraction(); length != 0) {
        take(part, at_ + length);
        return true;
      }
    }
    const bool joins = *at_ == ' ' && at_ + 1 != end_ && class_at(at_ + 1) != CharClass::Space;
    const char* first = joins ? at_ + 1 : at_;
    finish(part, first, class_at(first));
    return true;
  }

 private:
  using Byte = unsigned char;

  [[nodiscard]] CharClass class_at(const char* place) const {
    const auto byte = static_cast<Byte>(*place);
    return byte < 0x80 ? ascii_[byte] : character_at(place).kind;
  }

  /// The part that begins at at_ and goes on from `from` with characters of `kind`.
  void finish(Part& part, const char* from, CharClass kind) {
    const auto room = static_cast<std::size_t>(end_ - at_);
    const char* limit = room > kMaxPart ? at_ + kMaxPart : end_;
    const char* last = run(from, limit, kind);
    const bool whole = last < limit || last == end_ || class_at(last) != kind;
    if (kind == CharClass::Space && whole && last != end_) {  // leaves its last character
      const char* kept = before(last);
      if (kept != at_ || continues_) last = kept;
    }
    continues_ = whole ? std::nullopt : std::optional(kind);
    take(part, last, whole);
  }

  /// Behind the characters of `kind` that stand at `from`; stops at the first that reaches `limit`.
  [[nodiscard]] const char* run(const char* from, const char* limit, CharClass kind) const {
    while (from < limit) {
      const auto byte = static_cast<Byte>(*from);
      if (byte < 0x80) {
        if (ascii_[byte] != kind) return from;
        ++from;
      } else {
        const Seen seen = character_at(from);
        if (seen.kind != kind) return from;
        from += seen.bytes;
      }
    }
    return from;
  }

  void take(Part& part, const char* until, bool ends_piece = true) {
    part = {{at_, static_cast<std::size_t>(until - at_)}, ends_piece};
    at_ = until;
  }

  struct Seen {
    CharClass kind;
    int bytes;
  };
  /// Throws InvalidUtf8.
  [[nodiscard]] Seen character_at(const char* place) const;
  /// Length of the contraction at at_, an apostrophe; 0 if there is none.
  [[nodiscard]] std::size_t contraction() const;
  /// The beginning of the character before `place`.
  [[nodiscard]] static const char* before(const char* place);

  const ClassTable& classes_;
  std::array<CharClass, 0x80> ascii_;
  std::string_view text_;
  const char* at_;
  const char* end_;
  std::optional<CharClass> continues_;  // the piece of the part before goes on
};

/// The first place in [from, to] at which a text may be cut without changing its pieces, whatever
/// stands elsewhere; empty if there is none. Two characters of which the pattern never puts the
/// second behind the first in one piece meet there:
///   - anything but white space, then white space (only the beginning of a piece is white space);
///   - a letter or a number, then anything of another class.
/// At such a place a match ends for certain, and a match depends on nothing before its beginning;
/// of what comes behind, only white space looks ahead, and the piece before is not white space.
/// Never within a character. Ill-formed UTF-8 is passed over. Throws std::invalid_argument unless
/// from <= to <= text.size().
std::optional<std::size_t> find_cut(const ClassTable& classes, std::string_view text,
                                    std::size_t from, std::size_t to);

}  // namespace tutti::data
