// Memory of tensors on the CPU, kept from step to step: a training step asks for the same sizes
// again and again, and giving them back to the kernel costs a page fault per 4 KiB of every
// activation (docs/design/0005).
#pragma once

#include <c10/core/CPUAllocator.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tutti::tensor {

/// Size classes: eight per power of two, so that a block is at most an eighth larger than asked.
struct SizeClass {
  int index = 0;
  std::size_t bytes = 0;  // of data, a multiple of 64
};

/// The smallest class that holds `bytes` (0 counts as 1). Throws std::bad_alloc above 2^47.
SizeClass size_class(std::size_t bytes);

/// Hands out blocks from slabs on huge pages and keeps what is freed in one list per class; nothing
/// goes back to the kernel. Any thread may allocate and free. Data begins on 64-byte boundaries, to
/// which oneMKL ties equal bits. Must outlive every tensor: the process's instance is never
/// destroyed.
class CachingAllocator final : public c10::Allocator {
 public:
  CachingAllocator() = default;

  c10::DataPtr allocate(std::size_t bytes) override;
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  struct Usage {
    std::size_t mapped = 0;  // bytes taken from the kernel
    std::size_t in_use = 0;  // bytes of live blocks, class sizes
    std::size_t peak = 0;    // largest in_use so far
  };
  [[nodiscard]] Usage usage() const;

 private:
  struct Header;
  static constexpr std::size_t kClasses = 8 * 48;
  static constexpr std::size_t kSlabBytes = std::size_t{64} << 20;

  static void free_block(void* data);
  Header* take(const SizeClass& size);
  std::byte* carve(std::size_t bytes);

  mutable std::mutex mutex_;
  std::array<Header*, kClasses> free_{};
  std::byte* slab_ = nullptr;  // the unused rest of the newest slab
  std::size_t slab_left_ = 0;
  Usage usage_;
};

/// Makes a CachingAllocator the process's allocator of CPU tensors; once, before the first tensor.
/// Later calls return the same one.
CachingAllocator& install_caching_allocator();

}  // namespace tutti::tensor
