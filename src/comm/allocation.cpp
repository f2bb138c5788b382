// Memory for a group: each rank's own part of its arena, or one copy for all ranks of a host (rank
// 0 allocates, the others look at its arena).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "comm/arena.h"
#include "comm/communicator.h"
#include "comm/engine.h"
#include "comm/group.h"
#include "core/error.h"
#include "core/log.h"

namespace tutti::comm {
namespace {

/// What rank 0 tells the others, as int64s of a broadcast.
struct Place {
  std::int64_t found = 0;
  std::int64_t segment = 0, offset = 0;
};

std::shared_ptr<std::byte> plain_memory(std::size_t bytes, std::size_t align) {
  if (align < 64 || (align & (align - 1)) != 0) {
    throw std::invalid_argument(fmt::format("alignment {} is no power of two >= 64", align));
  }
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + align - 1) / align * align;
  void* data = whole < bytes ? nullptr : std::aligned_alloc(align, whole);
  if (data == nullptr) {
    throw core::RunError(
        fmt::format("{} bytes of memory are wanted: the host has not got them", bytes));
  }
  return {static_cast<std::byte*>(data), [](std::byte* p) { std::free(p); }};
}

}  // namespace

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes, std::size_t align) const {
  if (!state_ || size() == 1) return plain_memory(bytes, align);
  state_->engine().check_process();  // a fork would announce memory in its parent's name
  try {
    return state_->engine().arena().allocate(bytes, align);
  } catch (const core::RunError& error) {
    if (!state_->engine().options().allow_staging) throw;
    core::log::warn(
        "{} Unregistered memory is used instead ([comm] allow_staging): operations on "
        "it are staged.",
        error.what());
    return plain_memory(bytes, align);
  }
}

std::shared_ptr<std::byte> Communicator::allocate_shared(std::size_t bytes, Label label) {
  if (size() == 1) return allocate(bytes);
  if (state_->engine().options().dry) return nullptr;
  for (int peer = 0; peer < size(); ++peer) {
    if (!shares_memory_with(peer)) return nullptr;
  }
  std::shared_ptr<std::byte> memory;
  std::string failure;
  Place place;
  if (rank() == 0) {
    try {
      state_->engine().check_process();
      memory = state_->engine().arena().allocate(bytes);  // plain memory would not be shared
      const auto at = state_->engine().arena().find(memory.get(), bytes);
      TUTTI_CHECK(at.has_value(), "memory of the arena that is not in it");
      place = {1, at->segment, static_cast<std::int64_t>(at->offset)};
    } catch (const core::RunError& error) {
      failure = error.what();
    }
  }
  // Also after a failure, or the others would wait for it until their deadline.
  broadcast({&place, sizeof place / sizeof(std::int64_t), DType::Int64}, 0, label).wait();
  if (place.found == 0) {
    throw core::RunError(rank() == 0 ? failure
                                     : fmt::format("{}: rank 0 of {} could not allocate {} bytes",
                                                   label.text, name(), bytes));
  }
  if (rank() == 0) return memory;
  const Engine::Lock lock(state_->engine());
  return state_->engine().peers().share(
      state_->world_rank(0), static_cast<std::uint16_t>(place.segment),
      static_cast<std::uint64_t>(place.offset), static_cast<std::uint64_t>(bytes));
}

}  // namespace tutti::comm
