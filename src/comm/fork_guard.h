// Knows whether this process is the one that made the object, or a fork of it.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "core/error.h"

namespace tutti::comm {

/// One page that the kernel empties in a forked child (MADV_WIPEONFORK): a look at it costs a load,
/// where asking for the process id would cost a system call.
class ForkGuard {
 public:
  ForkGuard()
      : page_(static_cast<unsigned char*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (page_ == MAP_FAILED) core::throw_errno("mapping a page");
    if (::madvise(page_, kBytes, MADV_WIPEONFORK) != 0) core::throw_errno("MADV_WIPEONFORK");
    *page_ = 1;
  }
  ~ForkGuard() { ::munmap(page_, kBytes); }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  [[nodiscard]] bool in_fork() const { return *page_ == 0; }

 private:
  static constexpr std::size_t kBytes = 4096;
  unsigned char* page_;
};

}  // namespace tutti::comm
