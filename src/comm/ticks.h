// Cheap time stamps for the diary of every operation: the time-stamp counter where there is one.
#pragma once

#include <cstdint>

#include "core/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tutti::comm {

/// The counter is the same on all cores and in all processes of a host.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(core::now().count() * 1e9);
#endif
}

/// Turns ticks into seconds, by its own age on both clocks: good to a per mille after 10 ms.
class TickRate {
 public:
  [[nodiscard]] double seconds_since(std::uint64_t then) const {
    const std::uint64_t at = ticks();
    const double per_tick = (core::now() - start_).count() / static_cast<double>(at - first_);
    return at > then ? static_cast<double>(at - then) * per_tick : 0.0;
  }

 private:
  std::uint64_t first_ = ticks();
  core::Seconds start_ = core::now();
};

/// Tells the core that this thread spins.
inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace tutti::comm
