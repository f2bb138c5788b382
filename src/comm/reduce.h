// Element-wise reduction of several buffers into several others, with statistics on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/collective.h"
#include "comm/kernels.h"

namespace tutti::comm {

/// Sums of squares per block while a share of the buffer is reduced piece by piece, in order.
/// A block's eight lanes go on where the last piece ended, so the sum does not depend on pieces.
class BlockSums {
 public:
  /// `share`: elements [begin, end) of the whole buffer that this rank reduces; both are block
  /// starts or the buffer's end (see cut_at_blocks). Fills `stats` as pieces are added.
  BlockSums(ReduceStats& stats, std::size_t begin, std::size_t end, std::size_t whole);

  /// How many of the next elements belong to the block at hand (all of them when none is).
  [[nodiscard]] std::size_t left_in_block() const;
  [[nodiscard]] bool not_finite_so_far() const;

  void add(const TypeKernels& kernels, const void* x, std::size_t n);
  void blame(std::uint64_t ranks);  // sources of the block at hand that are not finite
  void advance(std::size_t n);      // to the next elements, closing the block at its end

 private:
  void finish_block();

  ReduceStats& stats_;
  std::size_t block_ = 0;  // index into block_starts
  std::size_t at_, whole_;
  double lanes_[kLanes] = {};
  std::uint64_t blamed_ = 0;
};

/// What a reduction does to each element.
struct Reduction {
  DType dtype = DType::Float32;
  Reduce op;
  int ranks = 1;  // Avg divides by it
  int run = 0;    // so many sources are added first, then these sums in order (GroupMap); 0: all
};

/// destinations[k][i] = op over s of sources[s][i], in the order of the sources (and of runs). A
/// destination may be exactly a source, never overlap one otherwise. `sums` may be null. Flags of
/// not finite sources are set from the inputs before anything is stored over them.
void reduce(const Reduction& what, std::span<const void* const> sources,
            std::span<void* const> destinations, std::size_t count, BlockSums* sums,
            const Kernels& kernels = best_kernels());

}  // namespace tutti::comm
