// Notes about the elements of a buffer, kept per run of equal ones: a map from slices to values.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "schedule/collective_step.h"

namespace tutti::schedule {

/// A buffer of `size` elements in adjacent pieces; each piece has one Value for all of its
/// elements.
template <class Value>
class Pieces {
 public:
  struct Piece {
    std::size_t end;
    Value value;
  };

  Pieces(std::size_t size, Value value) {
    if (size > 0) pieces_.push_back({size, std::move(value)});
  }

  /// Calls f(slice, value&) for the pieces of `slice`, in order. Pieces are cut at its borders
  /// first; f may change values.
  template <class F>
  void visit(Slice slice, F&& f) {
    if (slice.empty()) return;
    std::size_t i = cut(slice.begin);
    const std::size_t last = cut(slice.end);
    for (std::size_t begin = slice.begin; i < last; ++i) {
      f(Slice{begin, pieces_[i].end}, pieces_[i].value);
      begin = pieces_[i].end;
    }
  }

  [[nodiscard]] std::size_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }

 private:
  // Makes a piece begin at `at`; returns its place.
  std::size_t cut(std::size_t at) {
    const auto it =
        std::upper_bound(pieces_.begin(), pieces_.end(), at,
                         [](std::size_t x, const Piece& piece) { return x < piece.end; });
    const auto place = static_cast<std::size_t>(it - pieces_.begin());
    const std::size_t begin = place == 0 ? 0 : pieces_[place - 1].end;
    if (begin == at || it == pieces_.end()) return place;
    pieces_.insert(it, Piece{at, it->value});
    return place + 1;
  }

  std::vector<Piece> pieces_;
};

}  // namespace tutti::schedule
