// Walks each target from its first to its last element and takes every stretch from the first
// source that has it.
#include "mesh/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::mesh {
namespace {

void check(const std::vector<FlatSlice>& slices, const char* what) {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].first < 0 || slices[i].count < 0) {
      throw std::invalid_argument(fmt::format("{} {}: {} elements from element {}", what, i,
                                              slices[i].count, slices[i].first));
    }
  }
}

/// The stretch that begins at `element`: its source and its end. Sources before the one that covers
/// `element` do not cover it, but may begin further on; the stretch ends there.
struct Stretch {
  int source;
  std::int64_t end;
};

Stretch stretch_at(const std::vector<FlatSlice>& sources, std::int64_t element, std::int64_t end) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::int64_t source_end = sources[i].first + sources[i].count;
    if (sources[i].first <= element && element < source_end) {
      return {static_cast<int>(i), std::min(end, source_end)};
    }
    if (sources[i].first > element && sources[i].count > 0) end = std::min(end, sources[i].first);
  }
  throw std::invalid_argument(fmt::format("no source covers element {}", element));
}

}  // namespace

std::vector<Copy> reshard(const std::vector<FlatSlice>& sources,
                          const std::vector<FlatSlice>& targets) {
  check(sources, "source");
  check(targets, "target");
  std::vector<Copy> copies;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const std::int64_t begin = targets[t].first;
    const std::int64_t end = begin + targets[t].count;
    for (std::int64_t element = begin; element < end;) {
      const Stretch stretch = stretch_at(sources, element, end);
      copies.push_back(
          {.source = stretch.source,
           .target = static_cast<int>(t),
           .source_offset = element - sources[static_cast<std::size_t>(stretch.source)].first,
           .target_offset = element - begin,
           .count = stretch.end - element});
      element = stretch.end;
    }
  }
  return copies;
}

}  // namespace tutti::mesh
