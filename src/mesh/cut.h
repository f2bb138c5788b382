// Which part of a logical tensor a rank holds when its elements are dealt out along one dim, and
// where the elements of that part lie in the whole. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "mesh/reshard.h"

namespace tutti::mesh {

/// Part `index` of a tensor cut into `of` parts along `dim`. The dim is first taken as `bands`
/// equal pieces, each of which is cut by itself (a fused QKV is three matrices, not one). `of` = 1:
/// the whole tensor.
struct Cut {
  int dim = 0;
  int bands = 1;
  int index = 0;
  int of = 1;
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// What part `index` of `of` gets of `count` things that lie in a row: neighbours, the first
/// count mod `of` parts one more than the others.
FlatSlice share(std::int64_t count, int index, int of);

/// The shape of the part. Throws std::invalid_argument for a dim that the shape has not, bands that
/// do not divide it, or an index outside 0 .. of - 1.
std::vector<std::int64_t> part_shape(const std::vector<std::int64_t>& shape, const Cut& cut);

/// Elements `slice` of the part (flattened in row-major order) as slices of the whole tensor, in
/// order, as few as there can be. Throws std::invalid_argument as part_shape(), and for a slice
/// that leaves the part.
std::vector<FlatSlice> place_in_whole(const std::vector<std::int64_t>& shape, const Cut& cut,
                                      FlatSlice slice);

}  // namespace tutti::mesh
