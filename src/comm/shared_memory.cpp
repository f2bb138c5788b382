// memfd_create, fallocate, seals, mmap.
#include "comm/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "core/pages.h"

namespace tutti::comm {
namespace {

// What the kernel thinks it can hand out without swapping; "no limit known" if it does not say.
std::size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::size_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return std::numeric_limits<std::size_t>::max();
}

core::RunError no_memory(std::size_t bytes, const char* why) {
  return core::RunError(fmt::format(
      "{} bytes of shared memory are wanted, {} bytes are available on this host ({}). Use fewer "
      "ranks, a smaller model or batch, or raise the container's memory limit.",
      bytes, available_bytes(), why));
}

}  // namespace

Mapping::~Mapping() { ::munmap(data_, bytes_); }

core::Fd create_shared_memory(const char* name, std::size_t bytes, bool require_huge) {
  // Asked before fallocate: a memory cgroup answers an excess by killing, not by an error.
  if (bytes > available_bytes()) throw no_memory(bytes, "checked before reserving");
  core::Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) core::throw_errno("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throw no_memory(bytes, std::strerror(errno));
  }
  const std::size_t huge = core::lay_on_huge_pages(fd.get(), bytes);
  if (require_huge && huge < bytes / core::kHugePage * core::kHugePage) {
    throw core::RunError(fmt::format(
        "[run] huge_pages = \"require\", but of {} bytes of shared memory only {} lie on huge "
        "pages: the host has no more memory in pieces of 2 MiB, or none for shared memory. Free "
        "memory, or set huge_pages = \"auto\", which takes small pages for the rest.",
        bytes, huge));
  }
  if (bytes >= core::kHugePage && huge + core::kHugePage <= bytes) {
    core::log::info("shared memory: {} of {} bytes on huge pages, the rest on small ones", huge,
                    bytes);
  }
  int failed = 0;  // what has a page keeps it
  do {
    failed = ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed != 0) throw no_memory(bytes, std::strerror(failed));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    core::throw_errno("sealing a memfd");
  }
  return fd;
}

std::int64_t mapped_pss(const std::vector<std::string_view>& names) {
  std::ifstream file("/proc/self/smaps");
  if (!file) return -1;
  std::int64_t kib = 0;
  bool ours = false;
  for (std::string line; std::getline(file, line);) {
    // A mapping's first line has its addresses; the following ones begin with a word and a colon.
    const std::size_t word = line.find_first_of(" :");
    if (word != std::string::npos && line[word] == ' ') {
      ours = false;
      for (const std::string_view name : names) ours |= line.find(name) != std::string::npos;
    } else if (ours && line.starts_with("Pss:")) {
      kib += std::stoll(line.substr(4));
    }
  }
  return kib * 1024;
}

std::shared_ptr<Mapping> MappingCache::map(int fd, std::size_t bytes) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) core::throw_errno("fstat of a memfd");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (bytes == 0 || static_cast<std::size_t>(info.st_size) < bytes || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    throw core::RunError(fmt::format(
        "a descriptor came that is not a sealed memfd of {} bytes (it has {} bytes, seals {:#x})",
        bytes, info.st_size, static_cast<unsigned>(seals)));
  }
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Mapping>& known = known_[{info.st_dev, info.st_ino}];
  if (auto mapping = known.lock(); mapping && mapping->bytes() >= bytes) return mapping;
  std::byte* const data = core::map_shared(fd, bytes);
  if (data == nullptr) core::throw_errno(fmt::format("mapping {} bytes", bytes));
  auto mapping = std::make_shared<Mapping>(data, bytes);
  known = mapping;
  return mapping;
}

}  // namespace tutti::comm
