// One rank's shared memory: a list of memfd segments that peers map, with an allocator on top.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/fork_guard.h"
#include "comm/shared_memory.h"
#include "core/fd.h"

namespace tutti::comm {

/// A place in a rank's arena, as descriptors carry it.
struct ArenaRef {
  std::uint16_t segment = 0;
  std::uint64_t offset = 0;  // bytes
};

/// Thread-safe: memory is often freed by another thread than the one that asked for it.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  /// Called with each new segment before any of its memory is handed out, so that a peer always
  /// hears of a segment before a descriptor can name it.
  using Announce = std::function<void(std::uint16_t segment, int fd, std::size_t bytes)>;

  Arena(std::shared_ptr<MappingCache> mappings, Announce announce);

  /// Reserves a segment at once. Throws core::RunError with sizes, and with `require_huge` also
  /// where it would not lie on huge pages.
  void add_segment(std::size_t bytes, bool require_huge = false);

  /// `align` is a power of two, 64 to 4096. Grows the arena if no segment has room (each new
  /// segment as large as all before, at most 256 MiB, or what is asked). Zero bytes are one byte.
  /// Throws core::RunError with sizes, std::invalid_argument for another alignment.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, std::size_t align = 4096);

  /// Where the range lies; empty unless one segment holds all of it.
  [[nodiscard]] std::optional<ArenaRef> find(const void* data, std::size_t bytes) const;

  [[nodiscard]] std::size_t reserved_bytes() const;
  [[nodiscard]] std::size_t used_bytes() const;

  /// Announces all segments there are to `late`, and none meanwhile to anybody.
  void announce_again(const Announce& late);

  /// What is there, in bytes.
  struct Report {
    int segments = 0;
    std::size_t reserved = 0, used = 0;
    std::size_t largest_free = 0;  // the largest block that needs no new segment
  };
  [[nodiscard]] Report report() const;

  /// Stops announcing: called when the world that listens goes away.
  void detach();

 private:
  struct Segment {
    core::Fd fd;
    std::shared_ptr<Mapping> memory;
    std::map<std::size_t, std::size_t> free;  // offset -> bytes, never adjacent
  };

  void add_segment_locked(std::size_t bytes, bool require_huge = false);
  void grow_locked(std::size_t bytes);
  std::optional<ArenaRef> take_locked(std::size_t bytes, std::size_t align);
  void release(ArenaRef place, std::size_t bytes);

  std::shared_ptr<MappingCache> mappings_;
  Announce announce_;
  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::size_t reserved_ = 0, used_ = 0;
  ForkGuard fork_guard_;
};

}  // namespace tutti::comm
