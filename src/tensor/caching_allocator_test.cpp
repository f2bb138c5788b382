// The caching allocator: classes, reuse, alignment, many threads.
#include "tensor/caching_allocator.h"

#include <gmock/gmock.h>

#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace tutti::tensor {
namespace {

TEST(SizeClass, HoldsWhatWasAskedAndWastesAtMostAnEighth) {
  int last = -1;
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 22); bytes += 1 + bytes / 50) {
    const SizeClass size = size_class(bytes);
    ASSERT_GE(size.bytes, bytes);
    ASSERT_LE(size.bytes, bytes + bytes / 8 + 64) << bytes;
    ASSERT_EQ(size.bytes % 64, 0U);
    ASSERT_GE(size.index, last) << "classes grow with sizes";
    last = size.index;
  }
}

TEST(SizeClass, ItsOwnSizeIsItsLargest) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{513}, std::size_t{4097}, std::size_t{1} << 30}) {
    const SizeClass size = size_class(bytes);
    EXPECT_EQ(size_class(size.bytes).index, size.index);
    EXPECT_EQ(size_class(size.bytes + 1).index, size.index + 1);
  }
}

TEST(SizeClass, RefusesWhatNoMachineHas) {
  EXPECT_THROW(size_class((std::size_t{1} << 47) + 1), std::bad_alloc);
}

TEST(CachingAllocator, GivesAFreedBlockToTheNextOfItsClass) {
  auto* allocator = new CachingAllocator;
  void* first = allocator->allocate(100'000).get();  // freed at once
  const c10::DataPtr again = allocator->allocate(99'990);
  EXPECT_EQ(again.get(), first);
  const c10::DataPtr other = allocator->allocate(100'000);
  EXPECT_NE(other.get(), first) << "the block is in use";
}

TEST(CachingAllocator, AsksTheKernelOnlyOnceForARepeatingStep) {
  auto* allocator = new CachingAllocator;
  const auto step = [&] {
    std::vector<c10::DataPtr> kept;
    for (const std::size_t bytes : {1000U, 3'000'000U, 70'000'000U, 64U})
      kept.push_back(allocator->allocate(bytes));
  };
  step();
  const std::size_t mapped = allocator->usage().mapped;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(allocator->usage().mapped, mapped);
  EXPECT_EQ(allocator->usage().in_use, 0U);
  EXPECT_GE(allocator->usage().peak, 73'000'000U);
}

TEST(CachingAllocator, AlignsDataTo64Bytes) {
  auto* allocator = new CachingAllocator;
  std::vector<c10::DataPtr> kept;
  for (std::size_t bytes = 1; bytes < 100'000'000; bytes = bytes * 3 + 1) {
    kept.push_back(allocator->allocate(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.back().get()) % 64, 0U) << bytes;
    std::memset(kept.back().get(), 1, bytes);
  }
}

TEST(CachingAllocator, NothingIsAskedForZeroBytes) {
  auto* allocator = new CachingAllocator;
  EXPECT_EQ(allocator->allocate(0).get(), nullptr);
  EXPECT_EQ(allocator->usage().mapped, 0U);
}

TEST(CachingAllocator, RawMemoryGoesBackByTheRawDeleter) {
  auto* allocator = new CachingAllocator;
  void* raw = allocator->raw_allocate(500);
  allocator->raw_deallocate(raw);
  EXPECT_EQ(allocator->usage().in_use, 0U);
}

TEST(CachingAllocator, BlocksMayBeFreedByOtherThreads) {
  auto* allocator = new CachingAllocator;
  for (int round = 0; round < 20; ++round) {
    std::vector<c10::DataPtr> kept;
    for (int i = 0; i < 64; ++i) {
      kept.push_back(allocator->allocate(1000));
      std::memset(kept.back().get(), i, 1000);
    }
    std::thread other([moved = std::move(kept)]() mutable { moved.clear(); });
    const c10::DataPtr mine = allocator->allocate(1000);
    std::memset(mine.get(), 0, 1000);
    other.join();
  }
  EXPECT_EQ(allocator->usage().in_use, 0U);
}

}  // namespace
}  // namespace tutti::tensor
