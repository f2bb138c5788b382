// The heap that LibTorch fills while it is loaded.
#pragma once

#include <cstddef>

namespace tutti::tensor {

/// LibTorch registers its operators before main(), in some 50 MiB of small blocks. The allocator
/// would ask the kernel for them 132 KiB at a time, on 4 KiB pages: a quarter of what loading costs
/// (docs/design/0005). A program that links this has 64 MiB of heap at hand before any library is
/// initialised, on huge pages where the kernel has them; a page is made by its first write. No
/// config has been read by then: `[run] huge_pages` does not bear on it. Returns the bytes that
/// were put in order; 0 with another C library than glibc. The call keeps the linker from dropping
/// it.
std::size_t loading_heap_bytes();

}  // namespace tutti::tensor
