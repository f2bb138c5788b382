// The dynamic linker calls what stands in a program's .preinit_array before it initialises any
// library; a constructor of ours would run after LibTorch's.
#include "tensor/loading_heap.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "core/pages.h"

namespace tutti::tensor {
namespace {

constexpr std::size_t kRoom = std::size_t{64} << 20;
constexpr int kLargestBlock = 32 << 20;  // larger ones get pages of their own; glibc's upper limit

std::size_t prepared = 0;

#if defined(__GLIBC__)

// Nothing of the C++ library is there yet.
void prepare(int, char**, char**) {
  ::mallopt(M_TOP_PAD, static_cast<int>(kRoom));
  ::mallopt(M_MMAP_THRESHOLD, kLargestBlock);  // or tables that grow are mapped and unmapped
  void* const first = std::malloc(1);          // extends the heap by kRoom
  const auto begin = core::round_up(reinterpret_cast<std::uintptr_t>(first), core::kHugePage);
  const std::size_t whole = kRoom - core::kHugePage;
  if (::madvise(reinterpret_cast<void*>(begin), whole, MADV_HUGEPAGE) == 0) prepared = whole;
  std::free(first);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const prepare_first)(int, char**,
                                                                          char**) = prepare;

#endif

}  // namespace

std::size_t loading_heap_bytes() { return prepared; }

}  // namespace tutti::tensor
