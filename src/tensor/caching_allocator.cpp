// Slabs, classes and free lists.
#include "tensor/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/pages.h"

namespace tutti::tensor {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kLargest = std::size_t{1} << 47;

}  // namespace

/// Stands in the 64 bytes before a block's data.
struct CachingAllocator::Header {
  CachingAllocator* owner;
  Header* next;  // in its free list
  SizeClass size;

  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(this) + kAlign; }
  static Header* of(void* data) {
    return reinterpret_cast<Header*>(static_cast<std::byte*>(data) - kAlign);
  }
};

SizeClass size_class(std::size_t bytes) {
  if (bytes > kLargest) throw std::bad_alloc();
  const std::size_t units = std::max<std::size_t>(1, (bytes + kAlign - 1) / kAlign);
  if (units <= 8) return {static_cast<int>(units - 1), units * kAlign};
  // 2^k < units <= 2^(k+1), k >= 3: steps of 2^k / 8.
  const int k = std::bit_width(units - 1) - 1;
  const std::size_t step = std::size_t{1} << (k - 3);
  const std::size_t steps = (units - (std::size_t{1} << k) + step - 1) / step;  // 1 .. 8
  return {8 * (k - 2) + static_cast<int>(steps) - 1,
          ((std::size_t{1} << k) + steps * step) * kAlign};
}

c10::DataPtr CachingAllocator::allocate(std::size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &free_block, cpu};
  const SizeClass size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  Header* block = take(size);
  usage_.in_use += size.bytes;
  usage_.peak = std::max(usage_.peak, usage_.in_use);
  return {block->data(), block->data(), &free_block, cpu};
}

CachingAllocator::Header* CachingAllocator::take(const SizeClass& size) {
  Header*& first = free_[static_cast<std::size_t>(size.index)];
  if (first != nullptr) {
    Header* block = first;
    first = block->next;
    return block;
  }
  return new (carve(size.bytes + kAlign)) Header{this, nullptr, size};
}

std::byte* CachingAllocator::carve(std::size_t bytes) {
  if (bytes > kSlabBytes / 4) {  // pages of its own, or slabs would waste their ends
    const std::size_t whole = core::round_up(bytes, core::kHugePage);
    usage_.mapped += whole;
    return core::map_private(whole);
  }
  if (bytes > slab_left_) {
    slab_ = core::map_private(kSlabBytes);
    slab_left_ = kSlabBytes;
    usage_.mapped += kSlabBytes;
  }
  std::byte* block = slab_;
  slab_ += bytes;
  slab_left_ -= bytes;
  return block;
}

void CachingAllocator::free_block(void* data) {
  if (data == nullptr) return;
  Header* block = Header::of(data);
  CachingAllocator& owner = *block->owner;
  const std::lock_guard lock(owner.mutex_);
  Header*& first = owner.free_[static_cast<std::size_t>(block->size.index)];
  block->next = first;
  first = block;
  owner.usage_.in_use -= block->size.bytes;
}

c10::DeleterFnPtr CachingAllocator::raw_deleter() const { return &free_block; }

void CachingAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  default_copy_data(to, from, bytes);
}

CachingAllocator::Usage CachingAllocator::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

CachingAllocator& install_caching_allocator() {
  // Never destroyed: tensors may live as long as the process.
  static auto* const allocator = new CachingAllocator;
  if (c10::GetCPUAllocator() != allocator) c10::SetCPUAllocator(allocator, /*priority=*/1);
  return *allocator;
}

}  // namespace tutti::tensor
