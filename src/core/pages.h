// Pages from the kernel, huge ones where it gives them: a page fault per 2 MiB instead of one per
// 4 KiB. The first touch of a model's memory is most of what a run pays before its first step
// (docs/design/0005).
#pragma once

#include <cstddef>

namespace tutti::core {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // of x86-64, and of ARM on 4 KiB

/// The least multiple of `unit` that is no smaller.
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Private zeros of at least `bytes` (> 0), on a multiple of kHugePage, huge pages where the kernel
/// has them. Each page is made by its first write. Throws std::bad_alloc. Given back by munmap.
std::byte* map_private(std::size_t bytes);

/// Has the kernel make the pages of a mapping now instead of at their first write. What it cannot
/// make (a kernel before Linux 5.14, or no memory) is made then.
void make_pages(std::byte* data, std::size_t bytes);

/// The first `bytes` (> 0) of the file `fd`, shared with whoever else maps it, to read and write.
/// Where that is a huge page or more it begins on a multiple of kHugePage, so that huge pages of
/// the file are mapped whole. Null, with errno, if the kernel refuses.
std::byte* map_shared(int fd, std::size_t bytes);

/// Makes the pages of a memfd of at least `bytes`, huge ones, as far as the kernel gives them.
/// Files in memory get none by themselves where the system's policy (shmem_enabled) is "never",
/// which is the usual one; this asks for each of them (Linux 6.1 and newer). Returns how many bytes
/// lie on huge pages; the rest is as it was. 0.1 ms per page.
std::size_t lay_on_huge_pages(int fd, std::size_t bytes);

/// From now on this process, and those that it starts, get no huge pages. To be called before
/// memory is taken: what is there stays.
void forbid_huge_pages();

}  // namespace tutti::core
