// Byte pair encoding: the bytes of one piece are merged pair by pair, the earliest merge of the
// list first, the leftmost place first.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::data {

/// Ids 0 .. 255 are bytes, id 256 + k is the result of merge k. At most 65,536 ids.
using TokenId = std::uint16_t;

/// What may be merged. Immutable once made.
class MergeTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};  // larger than every id

  /// `byte_ids`: the id of each byte. `merges[k]`: the two ids that become id 256 + k. Throws
  /// std::invalid_argument unless the byte ids are a permutation and both ids of a merge are
  /// smaller than its result: then merges are made in ascending order of their results, which
  /// LongPiece relies on.
  MergeTable(const std::array<TokenId, 256>& byte_ids,
             std::span<const std::pair<TokenId, TokenId>> merges);

  [[nodiscard]] TokenId byte_id(unsigned char byte) const { return byte_ids_[byte]; }
  /// What the pair becomes: the smaller, the earlier. kNone if it stays.
  [[nodiscard]] std::uint32_t merged(TokenId left, TokenId right) const {
    const std::uint32_t key = std::uint32_t{left} << 16 | right;
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return slots_[slot].id;
      if (slots_[slot].id == kNone) return kNone;
    }
  }

  [[nodiscard]] std::size_t num_ids() const { return starts_.size() - 1; }
  /// The bytes that an id stands for; id < num_ids().
  [[nodiscard]] std::string_view bytes(TokenId id) const {
    return std::string_view(bytes_).substr(starts_[id], starts_[id + 1u] - starts_[id]);
  }

 private:
  struct Slot {
    std::uint32_t key = 0;
    std::uint32_t id = kNone;  // kNone: the slot is free
  };
  [[nodiscard]] std::size_t slot_of(std::uint32_t key) const {
    return (key * 0x9E3779B1u) >> shift_;
  }

  std::array<TokenId, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing; at most half full
  int shift_ = 0;            // 32 - log2 of their number
  std::string bytes_;        // of all ids, one after another
  std::vector<std::uint32_t> starts_;
};

/// Merges single pieces. Keeps its memory from piece to piece: one per thread.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}  // which must outlive it

  /// Appends the ids of `piece` to `out`. n bytes take O(n^2) simple steps up to kShort bytes and
  /// O(n log n) above.
  void merge(std::string_view piece, std::vector<TokenId>& out);

 private:
  static constexpr std::size_t kShort = 48;

  void merge_short(std::string_view piece, std::vector<TokenId>& out);
  void merge_long(std::string_view piece, std::vector<TokenId>& out);

  /// A symbol of a long piece, in a list: `next` and `last` are places in symbols_.
  struct Symbol {
    TokenId id;
    std::uint32_t merged;  // with the next one; kNone: cannot be, or this one is gone
    std::uint32_t last;
    std::uint32_t next;
  };
  void note_pair(std::uint32_t left);

  const MergeTable& table_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> heap_;  // result << 32 | place: the least is merged first
};

/// A piece of any length, in bounded memory: it is merged in windows.
///
/// Why the ids are exact: each id is larger than the two it was merged from, so merges happen in
/// ascending order of their results, and a row of ids is what the whole text becomes if and only if
/// each two neighbours a, b are what the bytes of a and b alone become. (If some first merge
/// crossed the border of a and b, it would also happen in their bytes alone.) A window's ids are
/// such a row; where one is cut and the next begins, the two ids that meet are tried, and the cut
/// is moved until they hold. So the ids are right whenever there are any: if no cut of a window
/// holds, which no vocabulary met so far does, append() and finish() throw core::RunError.
class LongPiece {
 public:
  explicit LongPiece(const MergeTable& table) : table_(table), merger_(table) {}

  /// More bytes of the piece. Appends to `out` what is final by now.
  void append(std::string_view bytes, std::vector<TokenId>& out);
  /// Forgets what append() was given: after an error the next one begins a piece.
  void reset() {
    text_.clear();
    ids_.clear();
  }
  /// The end of the piece: appends the rest; the next append() begins another piece.
  void finish(std::vector<TokenId>& out);

 private:
  static constexpr std::size_t kWindow = std::size_t{1} << 12;

  void advance(std::vector<TokenId>& out);
  [[nodiscard]] bool holds(TokenId left, TokenId right);

  const MergeTable& table_;
  Merger merger_;
  std::string text_;               // not final yet; the window is its beginning
  std::vector<TokenId> ids_;       // of the window; empty: not merged yet
  std::vector<TokenId> next_ids_;  // scratch
};

}  // namespace tutti::data
