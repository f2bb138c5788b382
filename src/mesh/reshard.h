// How pieces of a logical tensor that lie in files (or on other ranks) become the pieces this rank
// needs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::mesh {

/// Elements [first, first + count) of a logical tensor, flattened in row-major order. Elements, not
/// bytes.
struct FlatSlice {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const FlatSlice&, const FlatSlice&) = default;
};

/// One copy: `count` elements from element `source_offset` of source piece `source` to element
/// `target_offset` of target piece `target`.
struct Copy {
  int source;
  int target;
  std::int64_t source_offset;
  std::int64_t target_offset;
  std::int64_t count;
  friend bool operator==(const Copy&, const Copy&) = default;
};

/// The copies that fill every target from the sources; sources may overlap (replicas): the first
/// that covers wins. Throws std::invalid_argument naming the first element that no source covers.
std::vector<Copy> reshard(const std::vector<FlatSlice>& sources,
                          const std::vector<FlatSlice>& targets);

}  // namespace tutti::mesh
