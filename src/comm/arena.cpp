// First fit over each segment's free ranges; neighbours are joined on release.
#include "comm/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "core/error.h"

namespace tutti::comm {

using core::round_up;
namespace {

constexpr std::size_t kSmallestSegment = std::size_t{1} << 20;
constexpr std::size_t kLargestGrowth = std::size_t{256} << 20;

}  // namespace

Arena::Arena(std::shared_ptr<MappingCache> mappings, Announce announce)
    : mappings_(std::move(mappings)), announce_(std::move(announce)) {}

void Arena::add_segment(std::size_t bytes, bool require_huge) {
  const std::lock_guard lock(mutex_);
  add_segment_locked(round_up(bytes, kPage), require_huge);
}

void Arena::add_segment_locked(std::size_t bytes, bool require_huge) {
  if (segments_.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw core::RunError(fmt::format("the arena has {} segments already", segments_.size()));
  }
  Segment segment;
  segment.fd = create_shared_memory("tutti-arena", bytes, require_huge);
  segment.memory = mappings_->map(segment.fd.get(), bytes);
  segment.free[0] = bytes;
  if (announce_) {
    announce_(static_cast<std::uint16_t>(segments_.size()), segment.fd.get(), bytes);
  }
  segments_.push_back(std::move(segment));
  reserved_ += bytes;
}

void Arena::grow_locked(std::size_t bytes) {
  const std::size_t wanted = round_up(bytes, kPage);
  const std::size_t roomy =
      std::max({wanted, kSmallestSegment, std::min(reserved_, kLargestGrowth)});
  try {
    add_segment_locked(roomy);
  } catch (const core::RunError&) {
    if (roomy == wanted) throw;
    add_segment_locked(wanted);  // room to spare is a wish, what was asked for is not
  }
}

std::shared_ptr<std::byte> Arena::allocate(std::size_t bytes, std::size_t align) {
  if (align < kLine || align > kPage || (align & (align - 1)) != 0) {
    throw std::invalid_argument(
        fmt::format("arena: alignment {} is not a power of two from 64 to 4096", align));
  }
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) {
    throw core::RunError(
        fmt::format("{} bytes of shared memory are wanted: no host has them", bytes));
  }
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), kLine);
  const std::lock_guard lock(mutex_);
  auto place = take_locked(whole, align);
  if (!place) {
    grow_locked(whole);
    place = take_locked(whole, align);
    TUTTI_CHECK(place.has_value());
  }
  used_ += whole;
  std::byte* data = segments_[place->segment].memory->data() + place->offset;
  auto self = shared_from_this();
  return {data, [self, place = *place, whole](std::byte*) { self->release(place, whole); }};
}

std::optional<ArenaRef> Arena::take_locked(std::size_t bytes, std::size_t align) {
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    auto& free = segments_[s].free;
    for (auto it = free.begin(); it != free.end(); ++it) {
      const auto [begin, room] = *it;
      const std::size_t at = round_up(begin, align);  // segments start on a page
      if (at - begin + bytes > room) continue;
      const std::size_t after = begin + room - (at + bytes);
      if (at == begin) {
        free.erase(it);
      } else {
        it->second = at - begin;
      }
      if (after > 0) free[at + bytes] = after;
      return ArenaRef{static_cast<std::uint16_t>(s), at};
    }
  }
  return std::nullopt;
}

void Arena::release(ArenaRef place, std::size_t bytes) {
  if (fork_guard_.in_fork()) return;  // the memory is the parent's, and so is who holds the lock
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  auto& free = segments_[place.segment].free;
  auto it = free.emplace(place.offset, bytes).first;
  if (const auto next = std::next(it);
      next != free.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free.erase(next);
  }
  if (it != free.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second == it->first) {
      before->second += it->second;
      free.erase(it);
    }
  }
}

std::optional<ArenaRef> Arena::find(const void* data, std::size_t bytes) const {
  const auto* address = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const Mapping& memory = *segments_[s].memory;
    if (address < memory.data() || address >= memory.data() + memory.bytes()) continue;
    const auto offset = static_cast<std::size_t>(address - memory.data());
    if (bytes > memory.bytes() - offset) return std::nullopt;
    return ArenaRef{static_cast<std::uint16_t>(s), offset};
  }
  return std::nullopt;
}

std::size_t Arena::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

std::size_t Arena::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void Arena::announce_again(const Announce& late) {
  const std::lock_guard lock(mutex_);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    late(static_cast<std::uint16_t>(s), segments_[s].fd.get(), segments_[s].memory->bytes());
  }
}

Arena::Report Arena::report() const {
  const std::lock_guard lock(mutex_);
  Report report = {static_cast<int>(segments_.size()), reserved_, used_, 0};
  for (const Segment& segment : segments_) {
    for (const auto& [offset, bytes] : segment.free) {
      report.largest_free = std::max(report.largest_free, bytes);
    }
  }
  return report;
}

void Arena::detach() {
  const std::lock_guard lock(mutex_);
  announce_ = nullptr;
}

}  // namespace tutti::comm
