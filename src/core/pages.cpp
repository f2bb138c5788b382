// mmap on the boundaries of huge pages, and MADV_COLLAPSE for memfds.
#include "core/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstdint>
#include <new>

#include "core/error.h"

namespace tutti::core {
namespace {

constexpr int kCollapse = 25;  // MADV_COLLAPSE, which glibc 2.36 does not name yet

/// Address space of `bytes`, a multiple of kPage, on a multiple of kHugePage. Null, with errno, if
/// there is none.
std::byte* reserve(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t before = round_up(address, kHugePage) - address;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, kHugePage - before);  // never empty: before < kHugePage
  return begin + before;
}

}  // namespace

std::byte* map_private(std::size_t bytes) {
  const std::size_t whole = round_up(bytes, kHugePage);
  std::byte* const pages = reserve(whole);
  if (pages == nullptr) throw std::bad_alloc();
  if (::mprotect(pages, whole, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(pages, whole);
    throw std::bad_alloc();
  }
  ::madvise(pages, whole, MADV_HUGEPAGE);  // refused where there are none: 4 KiB pages serve too
  return pages;
}

void make_pages(std::byte* data, std::size_t bytes) { ::madvise(data, bytes, MADV_POPULATE_WRITE); }

std::byte* map_shared(int fd, std::size_t bytes) {
  std::byte* place = nullptr;
  int flags = MAP_SHARED;
  if (bytes >= kHugePage) {
    place = reserve(round_up(bytes, kPage));
    if (place == nullptr) return nullptr;
    flags |= MAP_FIXED;
  }
  void* data = ::mmap(place, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (data != MAP_FAILED) return static_cast<std::byte*>(data);
  const int error = errno;
  if (place != nullptr) ::munmap(place, round_up(bytes, kPage));
  errno = error;
  return nullptr;
}

std::size_t lay_on_huge_pages(int fd, std::size_t bytes) {
  const std::size_t whole = bytes / kHugePage * kHugePage;
  std::byte* const data = whole == 0 ? nullptr : map_shared(fd, whole);
  if (data == nullptr) return 0;
  std::size_t laid = 0;
  for (std::size_t at = 0; at < whole; at += kHugePage) {
    // A range is collapsed only if some page of it is there. The others are not made before.
    if (::fallocate(fd, 0, static_cast<off_t>(at), kPage) != 0) break;
    if (::madvise(data + at, kHugePage, kCollapse) == 0) {
      laid += kHugePage;
    } else if (errno != EAGAIN) {
      break;  // an older kernel, huge pages forbidden, or no memory in one piece: nor for the rest
    }
  }
  ::munmap(data, whole);
  return laid;
}

void forbid_huge_pages() {
  if (::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) throw_errno("forbidding huge pages");
}

}  // namespace tutti::core
