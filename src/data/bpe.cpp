// Merging short pieces by looking, long ones by a heap, and very long ones window by window.
#include "data/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "core/error.h"

namespace tutti::data {

MergeTable::MergeTable(const std::array<TokenId, 256>& byte_ids,
                       std::span<const std::pair<TokenId, TokenId>> merges)
    : byte_ids_(byte_ids) {
  std::array<int, 256> byte_of;
  byte_of.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    const TokenId id = byte_ids[static_cast<std::size_t>(byte)];
    if (id > 255 || byte_of[id] >= 0) throw std::invalid_argument("byte ids: no permutation");
    byte_of[id] = byte;
  }
  if (merges.size() > 65536 - 256) throw std::invalid_argument("more than 65536 ids");
  const std::size_t num_slots = std::bit_ceil(2 * merges.size() + 2);
  slots_.resize(num_slots);
  shift_ = 32 - std::countr_zero(num_slots);

  starts_.push_back(0);
  for (const int byte : byte_of) {
    bytes_ += static_cast<char>(byte);
    starts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  for (const auto& [left, right] : merges) {
    const auto id = static_cast<std::uint32_t>(num_ids());
    if (left >= id || right >= id || merged(left, right) != kNone) {
      throw std::invalid_argument(fmt::format(
          "merge {} of {} and {}: later ids, or a pair met before", id - 256, left, right));
    }
    const std::string merged_bytes = std::string(bytes(left)) + std::string(bytes(right));
    bytes_ += merged_bytes;
    starts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    const std::uint32_t key = std::uint32_t{left} << 16 | right;
    std::size_t slot = slot_of(key);
    while (slots_[slot].id != kNone) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {key, id};
  }
}

void Merger::merge(std::string_view piece, std::vector<TokenId>& out) {
  if (piece.size() <= kShort) {
    merge_short(piece, out);
  } else {
    merge_long(piece, out);
  }
}

void Merger::merge_short(std::string_view piece, std::vector<TokenId>& out) {
  std::array<TokenId, kShort> ids;
  std::array<std::uint32_t, kShort> merged;  // of each id and the one behind it
  std::size_t count = piece.size();
  if (count == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = table_.byte_id(static_cast<unsigned char>(piece[i]));
  }
  for (std::size_t i = 0; i + 1 < count; ++i) merged[i] = table_.merged(ids[i], ids[i + 1]);
  while (count > 1) {
    const auto least = std::min_element(merged.begin(), merged.begin() + count - 1);
    if (*least == MergeTable::kNone) break;
    const auto i = static_cast<std::size_t>(least - merged.begin());
    ids[i] = static_cast<TokenId>(*least);
    --count;
    std::memmove(&ids[i + 1], &ids[i + 2], (count - i - 1) * sizeof(TokenId));
    if (i + 1 < count) {
      std::memmove(&merged[i], &merged[i + 1], (count - i - 1) * sizeof(std::uint32_t));
      merged[i] = table_.merged(ids[i], ids[i + 1]);
    }
    if (i > 0) merged[i - 1] = table_.merged(ids[i - 1], ids[i]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + count);
}

/// Puts the pair of `left` and its neighbour on the heap if it can be merged.
void Merger::note_pair(std::uint32_t left) {
  Symbol& symbol = symbols_[left];
  symbol.merged = symbol.next < symbols_.size() ? table_.merged(symbol.id, symbols_[symbol.next].id)
                                                : MergeTable::kNone;
  if (symbol.merged == MergeTable::kNone) return;
  heap_.push_back(std::uint64_t{symbol.merged} << 32 | left);
  std::ranges::push_heap(heap_, std::greater{});
}

void Merger::merge_long(std::string_view piece, std::vector<TokenId>& out) {
  constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  TUTTI_CHECK(piece.size() < kNowhere, "a piece of {} bytes in one go", piece.size());
  const auto count = static_cast<std::uint32_t>(piece.size());
  symbols_.resize(count);
  heap_.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols_[i] = {.id = table_.byte_id(static_cast<unsigned char>(piece[i])),
                   .merged = MergeTable::kNone,
                   .last = i == 0 ? kNowhere : i - 1,
                   .next = i + 1};  // that of the last symbol lies outside
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) note_pair(i);
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, std::greater{});
    const std::uint64_t top = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<std::uint32_t>(top);
    Symbol& symbol = symbols_[left];
    if (symbol.merged != top >> 32) continue;  // one of the two has been merged since
    Symbol& gone = symbols_[symbol.next];
    symbol.id = static_cast<TokenId>(symbol.merged);
    symbol.next = gone.next;
    gone.merged = MergeTable::kNone;
    if (symbol.next < count) symbols_[symbol.next].last = left;
    note_pair(left);
    if (symbol.last != kNowhere) note_pair(symbol.last);
  }
  for (std::uint32_t i = 0; i < count; i = symbols_[i].next) out.push_back(symbols_[i].id);
}

bool LongPiece::holds(TokenId left, TokenId right) {
  const std::string both = std::string(table_.bytes(left)) + std::string(table_.bytes(right));
  std::vector<TokenId> ids;
  merger_.merge(both, ids);
  return ids == std::vector{left, right};
}

void LongPiece::append(std::string_view bytes, std::vector<TokenId>& out) {
  text_ += bytes;
  while (text_.size() > 2 * kWindow) advance(out);
}

/// Makes the beginning of the window final and moves the window behind it. Cuts are tried from
/// three quarters of the window backwards, so that what follows the window's end has little to say
/// there: in practice the first one holds.
void LongPiece::advance(std::vector<TokenId>& out) {
  if (ids_.empty()) merger_.merge(std::string_view(text_).substr(0, kWindow), ids_);
  std::size_t cut = ids_.size() - ids_.size() / 8;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < cut; ++i) offset += table_.bytes(ids_[i]).size();
  for (; cut > 0; --cut) {
    next_ids_.clear();
    merger_.merge(std::string_view(text_).substr(offset, kWindow), next_ids_);
    if (holds(ids_[cut - 1], next_ids_[0])) {
      out.insert(out.end(), ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(cut));
      text_.erase(0, offset);
      ids_.swap(next_ids_);
      return;
    }
    offset -= table_.bytes(ids_[cut - 1]).size();
  }
  throw core::RunError(fmt::format(
      "a word of more than {} bytes cannot be encoded in parts: no place in it parts its ids. "
      "Break it by a space or a newline.",
      kWindow));
}

void LongPiece::finish(std::vector<TokenId>& out) {
  while (text_.size() > kWindow) advance(out);
  // The window now holds all of the rest, so these are the ids whose first one was tried.
  merger_.merge(text_, out);
  reset();
}

}  // namespace tutti::data
