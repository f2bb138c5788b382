// A part is runs of neighbours: one per band and per index of the dims before the cut one.
#include "mesh/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace tutti::mesh {
namespace {

std::int64_t product(std::vector<std::int64_t>::const_iterator begin,
                     std::vector<std::int64_t>::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

void check(const std::vector<std::int64_t>& shape, const Cut& cut) {
  const auto dims = static_cast<int>(shape.size());
  if (cut.of < 1 || cut.index < 0 || cut.index >= cut.of) {
    throw std::invalid_argument(fmt::format("part {} of {}", cut.index, cut.of));
  }
  if (cut.of == 1) return;
  if (cut.dim < 0 || cut.dim >= dims || cut.bands < 1 || shape[cut.dim] % cut.bands != 0) {
    throw std::invalid_argument(fmt::format("a cut along dim {} in {} bands of a tensor [{}]",
                                            cut.dim, cut.bands, fmt::join(shape, ", ")));
  }
}

void append(std::vector<FlatSlice>& slices, FlatSlice next) {
  if (next.count == 0) return;
  if (!slices.empty() && slices.back().first + slices.back().count == next.first) {
    slices.back().count += next.count;
  } else {
    slices.push_back(next);
  }
}

}  // namespace

FlatSlice share(std::int64_t count, int index, int of) {
  const std::int64_t each = count / of, left = count % of;
  return {index * each + std::min<std::int64_t>(index, left), each + (index < left ? 1 : 0)};
}

std::vector<std::int64_t> part_shape(const std::vector<std::int64_t>& shape, const Cut& cut) {
  check(shape, cut);
  if (cut.of == 1) return shape;
  std::vector<std::int64_t> part = shape;
  part[cut.dim] = cut.bands * share(shape[cut.dim] / cut.bands, cut.index, cut.of).count;
  return part;
}

std::vector<FlatSlice> place_in_whole(const std::vector<std::int64_t>& shape, const Cut& cut,
                                      FlatSlice slice) {
  const std::vector<std::int64_t> part = part_shape(shape, cut);
  const std::int64_t elements = product(part.begin(), part.end());
  if (slice.first < 0 || slice.count < 0 || slice.first > elements - slice.count) {
    throw std::invalid_argument(fmt::format("{} elements from element {} of a part of {}",
                                            slice.count, slice.first, elements));
  }
  std::vector<FlatSlice> slices;
  if (cut.of == 1 || slice.count == 0) {
    append(slices, slice);
    return slices;
  }
  const auto dim = shape.begin() + cut.dim;
  const std::int64_t inner = product(dim + 1, shape.end());
  const std::int64_t band = *dim / cut.bands;
  const FlatSlice mine = share(band, cut.index, cut.of);
  const std::int64_t run = mine.count * inner;  // neighbours in the whole
  const std::int64_t end = slice.first + slice.count;
  for (std::int64_t element = slice.first; element < end;) {
    const std::int64_t number = element / run, within = element % run;  // runs of bands, in order
    const std::int64_t count = std::min(run - within, end - element);
    append(slices, {(number * band + mine.first) * inner + within, count});
    element += count;
  }
  return slices;
}

}  // namespace tutti::mesh
