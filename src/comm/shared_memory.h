// Memory that several processes map: nameless (memfd), reserved at once, never shrinking.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fd.h"
#include "core/pages.h"

namespace tutti::comm {

using core::kPage;
inline constexpr std::size_t kLine = 64;  // blocks are whole lines: no two of them share one

/// A mapped range; unmapped when the object dies.
class Mapping {
 public:
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

/// A memfd of `bytes` zeros, its pages reserved here and now (no SIGBUS later) and sealed against
/// resizing; on huge pages as far as the host gives them, else on small ones. `name` is what
/// /proc/PID/maps shows. Throws core::RunError with the sizes if the host does not have the memory,
/// and with `require_huge` also if it has it on small pages only.
core::Fd create_shared_memory(const char* name, std::size_t bytes, bool require_huge = false);

/// Sum of the proportional shares (PSS) of this process's mappings whose names begin with one of
/// these, in bytes; -1 if /proc/self/smaps cannot be read. Milliseconds: for reports.
std::int64_t mapped_pss(const std::vector<std::string_view>& names);

/// Maps memfds, each of them once: ranks that are threads of one process share a cache, so that
/// they share addresses (and ThreadSanitizer sees one memory). Thread-safe.
class MappingCache {
 public:
  /// Throws core::RunError if the descriptor is not a sealed memfd of at least `bytes`.
  std::shared_ptr<Mapping> map(int fd, std::size_t bytes);

 private:
  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Mapping>> known_;
};

}  // namespace tutti::comm
