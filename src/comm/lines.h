// Cache lines on their way between cores: hints that change times, never values.
#pragma once

namespace tutti::comm {

/// Fetches a line for writing while this core does something else. A line that another core has
/// read costs a transfer when it is written again, and one that another core has written costs two
/// when it is read first and then stored to: this makes it none and one. Any address will do.
/// Inlined always: the kernels' translation units are compiled for other instruction sets.
[[gnu::always_inline]] static inline void own_line(const void* at) {
#if defined(__x86_64__)
  // PREFETCHW; processors without it take it for no operation. The compiler's builtin would need a
  // flag that they may not get.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

}  // namespace tutti::comm
