// Remembers the ids of words already merged: most of a text is words seen before.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "core/hash.h"
#include "data/bpe.h"

namespace tutti::data {

/// A direct-mapped table: a word has one place, a later word may take it. A slot is two cache lines
/// at most, so that a hit costs one miss at worst. 1.5 MiB; one per thread.
class WordCache {
 public:
  /// Longest word kept, in bytes, and most ids of one.
  static constexpr std::size_t kLongestWord = 48;

  /// Writes the ids of `word`, at most kLongestWord bytes, to `out`, where there is room for
  /// kLongestWord of them; `merger` makes those not known. Returns their end. `text_end` is the end
  /// of the text in which the word stands: bytes up to there may be read.
  std::uint32_t* encode(std::string_view word, const char* text_end, Merger& merger,
                        std::uint32_t* out) {
    const bool readable = text_end - word.data() >= std::ptrdiff_t{Small::kBytes};
    return word.size() <= Small::kBytes && readable ? encode_small(word, merger, out)
                                                    : encode_large(word, merger, out);
  }

 private:
  /// A word of up to 16 bytes, padded with zeros.
  struct Small {
    static constexpr std::size_t kBytes = 16;
    static constexpr std::size_t kIds = 7;
    std::uint64_t head = 0;
    std::uint64_t tail = 0;
    std::uint8_t bytes = 0;  // 0: the slot is free
    std::uint8_t ids = 0;
    std::array<TokenId, kIds> id{};
  };
  static_assert(sizeof(Small) == 32);

  struct Large {
    static constexpr std::size_t kIds = 39;
    std::uint8_t bytes = 0;
    std::uint8_t ids = 0;
    std::array<char, kLongestWord> word{};
    std::array<TokenId, kIds> id{};
  };
  static_assert(sizeof(Large) == 128);

  static constexpr int kSmallBits = 15;
  static constexpr int kLargeBits = 12;

  std::uint32_t* encode_small(std::string_view word, Merger& merger, std::uint32_t* out) {
    std::uint64_t head = 0;
    std::uint64_t tail = 0;
    std::memcpy(&head, word.data(), sizeof head);
    std::memcpy(&tail, word.data() + sizeof head, sizeof tail);
    const std::size_t bits = 8 * word.size();  // those behind the word do not count
    head &= bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    tail &= bits <= 64 ? 0 : ~std::uint64_t{0} >> (128 - bits);
    const std::uint64_t mixed =
        (head ^ (tail * 0x9E3779B97F4A7C15u) ^ word.size()) * 0xD6E8FEB86659FD93u;
    Small& slot = small_[mixed >> (64 - kSmallBits)];
    if (slot.head == head && slot.tail == tail && slot.bytes == word.size()) [[likely]] {
      // All seven places are copied, whatever their number: cheaper than a loop of unknown length.
      std::copy(slot.id.begin(), slot.id.end(), out);
      return out + slot.ids;
    }
    const std::vector<TokenId>& ids = merged(word, merger);
    out = std::copy(ids.begin(), ids.end(), out);
    if (ids.size() > Small::kIds) return out;
    slot = {.head = head,
            .tail = tail,
            .bytes = static_cast<std::uint8_t>(word.size()),
            .ids = static_cast<std::uint8_t>(ids.size())};
    std::copy(ids.begin(), ids.end(), slot.id.begin());
    return out;
  }

  std::uint32_t* encode_large(std::string_view word, Merger& merger, std::uint32_t* out) {
    Large& slot = large_[core::xxh3(word) >> (64 - kLargeBits)];
    if (std::string_view(slot.word.data(), slot.bytes) == word) {
      return std::copy_n(slot.id.begin(), slot.ids, out);
    }
    const std::vector<TokenId>& ids = merged(word, merger);
    out = std::copy(ids.begin(), ids.end(), out);
    if (ids.size() > Large::kIds) return out;
    slot.bytes = static_cast<std::uint8_t>(word.size());
    slot.ids = static_cast<std::uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.word.begin());
    std::copy(ids.begin(), ids.end(), slot.id.begin());
    return out;
  }

  const std::vector<TokenId>& merged(std::string_view word, Merger& merger) {
    scratch_.clear();
    merger.merge(word, scratch_);
    return scratch_;
  }

  std::unique_ptr<Small[]> small_ = std::make_unique<Small[]>(std::size_t{1} << kSmallBits);
  std::unique_ptr<Large[]> large_ = std::make_unique<Large[]>(std::size_t{1} << kLargeBits);
  std::vector<TokenId> scratch_;
};

}  // namespace tutti::data
