// One sweep over the edges of all sources says which of them gives which stretch; targets then pick
// their stretches.
#include "mesh/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
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

/// Elements [begin, end), all given by one source.
struct Stretch {
  std::int64_t begin, end;
  int source;
};

/// Ascending and disjoint: of the sources that cover an element the first gives it.
std::vector<Stretch> stretches_of(const std::vector<FlatSlice>& sources) {
  struct Edge {
    std::int64_t element;
    bool opens;
    int source;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].count == 0) continue;
    edges.push_back({sources[i].first, true, static_cast<int>(i)});
    edges.push_back({sources[i].first + sources[i].count, false, static_cast<int>(i)});
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.element < b.element; });
  std::vector<Stretch> stretches;
  std::set<int> open;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].opens) {
      open.insert(edges[i].source);
    } else {
      open.erase(edges[i].source);
    }
    const bool last = i + 1 == edges.size();
    if (last || open.empty() || edges[i + 1].element == edges[i].element) continue;
    const Stretch next{edges[i].element, edges[i + 1].element, *open.begin()};
    if (!stretches.empty() && stretches.back().end == next.begin &&
        stretches.back().source == next.source) {
      stretches.back().end = next.end;
    } else {
      stretches.push_back(next);
    }
  }
  return stretches;
}

}  // namespace

std::vector<Copy> reshard(const std::vector<FlatSlice>& sources,
                          const std::vector<FlatSlice>& targets) {
  check(sources, "source");
  check(targets, "target");
  const std::vector<Stretch> stretches = stretches_of(sources);
  std::vector<Copy> copies;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const std::int64_t begin = targets[t].first;
    const std::int64_t end = begin + targets[t].count;
    auto stretch = std::upper_bound(
        stretches.begin(), stretches.end(), begin,
        [](std::int64_t element, const Stretch& each) { return element < each.end; });
    for (std::int64_t element = begin; element < end; ++stretch) {
      if (stretch == stretches.end() || stretch->begin > element) {
        throw std::invalid_argument(fmt::format("no source covers element {}", element));
      }
      const std::int64_t until = std::min(end, stretch->end);
      copies.push_back(
          {.source = stretch->source,
           .target = static_cast<int>(t),
           .source_offset = element - sources[static_cast<std::size_t>(stretch->source)].first,
           .target_offset = element - begin,
           .count = until - element});
      element = until;
    }
  }
  return copies;
}

}  // namespace tutti::mesh
