// Notes about the elements of a buffer, kept per run of equal ones: a map from slices to values.
#pragma once

#include <map>
#include <utility>

#include "schedule/collective_step.h"

namespace tutti::schedule {

/// A buffer of `size` elements in adjacent pieces; each piece has one Value for all of its
/// elements.
template <class Value>
class Pieces {
 public:
  Pieces(std::size_t size, Value value) {
    if (size > 0) pieces_.emplace(size, std::move(value));
  }

  /// Calls f(slice, value&) for the pieces of `slice`, in order. Pieces are cut at its borders
  /// first; f may change values.
  template <class F>
  void visit(Slice slice, F&& f) {
    if (slice.empty()) return;
    cut(slice.begin);
    cut(slice.end);
    std::size_t begin = slice.begin;
    for (auto it = pieces_.upper_bound(begin); begin < slice.end; ++it) {
      f(Slice{begin, it->first}, it->second);
      begin = it->first;
    }
  }

  [[nodiscard]] std::size_t size() const { return pieces_.empty() ? 0 : pieces_.rbegin()->first; }

 private:
  // Makes a piece end at `at`, unless the buffer's border is there.
  void cut(std::size_t at) {
    const auto next = pieces_.lower_bound(at);
    if (at == 0 || next == pieces_.end() || next->first == at) return;
    pieces_.emplace_hint(next, at, next->second);
  }

  std::map<std::size_t, Value> pieces_;  // by end
};

}  // namespace tutti::schedule
