// The inner loops of reductions: tiles of elements that fit the first-level cache.
// One source (kernels_body.inc), compiled for several instruction sets; all give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/collective.h"

namespace tutti::comm {

inline constexpr std::size_t kTileElements = 1024;
inline constexpr std::size_t kLanes = 8;

/// What happens to values beside the operation itself; sums of floating-point types only.
struct Scale {
  double factor = 1;  // of every source, before it is added
  int divide_by = 1;  // of the sum
};

/// Functions over one tile (at most kTileElements elements), for one type.
struct TypeKernels {
  /// out[i] = sources[0][i] op sources[1][i] op ... in this order, in fp32 for half types (rounded
  /// once), exactly for integers (wrapping). `op` fits the type (check_op in communicator.cpp).
  /// `out` may be one of the sources.
  void (*combine)(ReduceOp op, const void* const* sources, std::size_t num_sources, void* out,
                  std::size_t n, Scale scale);
  /// Sum of two inputs, divided by `divide_by` where that is not 1, into both buffers: what combine
  /// gives. The outputs may be the inputs. In one pass, in which the outputs' lines are fetched for
  /// writing: an all-reduce of two ranks. Floating-point types only, else null. Any n.
  void (*add_pair)(const void* const* sources, void* const* outs, std::size_t n, int divide_by);
  /// out[i] = x[i], and back with one rounding. Half types only, else null.
  void (*widen)(const void* x, float* out, std::size_t n);
  void (*round)(const float* x, void* out, std::size_t n);
  /// lanes[(first_lane + i) % 8] += x[i]^2, in fp64. Null for integers.
  void (*squares)(const void* x, std::size_t n, std::size_t first_lane, double* lanes);
  /// Whether any x[i] is an infinity or NaN. Null for integers.
  bool (*any_not_finite)(const void* x, std::size_t n);
};

/// A full set, for one instruction set.
struct Kernels {
  const char* name;          // "baseline" (ARM: "neon"), "avx2", "avx512"
  const TypeKernels* types;  // kNumDTypes of them
  /// Copies by plain stores, for lines that were just read: where they belong to another core,
  /// memcpy's "rep movsb" moves one after the other (Zen 3).
  void (*copy)(void* to, const void* from, std::size_t bytes);
  [[nodiscard]] const TypeKernels& of(DType dtype) const { return types[static_cast<int>(dtype)]; }
};

/// The best set of this processor, chosen by cpuid.
const Kernels& best_kernels();

/// All sets that this processor can run, the plain one first: for tests that compare them.
std::vector<const Kernels*> runnable_kernels();

}  // namespace tutti::comm
