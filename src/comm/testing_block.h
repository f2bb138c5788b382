// Memory of a test's rank: in an arena, on the heap, or differing from rank to rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/testing_oracle.h"

namespace tutti::comm::testing {

using Bytes = std::vector<std::byte>;

enum class Memory { Arena, Heap, Mixed };  // Mixed: odd ranks have theirs outside of an arena
constexpr Memory kMemories[] = {Memory::Arena, Memory::Heap, Memory::Mixed};

/// A rank's buffer in the memory of the case, filled with bytes.
struct Block {
  Block(const Communicator& group, Memory where, const Bytes& content, DType dtype)
      : dtype(dtype), bytes(content.size()) {
    const bool arena = where == Memory::Arena || (where == Memory::Mixed && group.rank() % 2 == 0);
    if (arena) {
      owner = group.allocate(bytes, 64);
    } else {
      heap.resize(bytes + 1);
    }
    if (bytes > 0) std::memcpy(data(), content.data(), bytes);
  }
  std::byte* data() { return owner ? owner.get() : heap.data(); }
  Buffer buffer() { return {data(), bytes / element_bytes(dtype), dtype}; }
  Bytes content() { return {data(), data() + bytes}; }

  DType dtype;
  std::size_t bytes;
  std::shared_ptr<std::byte> owner;
  Bytes heap;
};

inline std::vector<Bytes> all_values(DType dtype, int ranks, std::size_t count) {
  std::vector<Bytes> inputs;
  for (int r = 0; r < ranks; ++r) inputs.push_back(values(dtype, r, count));
  return inputs;
}

/// What ranks put in, and what each reduction of it must give.
struct Example {
  struct Result {
    Reduce op;
    Bytes bytes;
  };
  DType dtype;
  std::size_t count;
  std::vector<Bytes> inputs;  // per rank
  std::vector<Result> results;
};

/// One per type and count. Made before the ranks begin and only read by them: an oracle of its own
/// in every rank took most of the time of these tests. `keep(dtype, op)` says what is reduced.
template <class Keep>
std::vector<Example> examples(int ranks, std::span<const DType> dtypes,
                              std::span<const std::size_t> counts, Keep keep) {
  std::vector<Example> all;
  for (const DType dtype : dtypes) {
    for (const std::size_t count : counts) {
      Example each{dtype, count, all_values(dtype, ranks, count), {}};
      for (const Reduce op : all_reductions(dtype)) {
        if (keep(dtype, op)) each.results.push_back({op, reduced(each.inputs, dtype, op)});
      }
      all.push_back(std::move(each));
    }
  }
  return all;
}
inline bool every_reduction(DType, Reduce) { return true; }
inline bool plain_sum(DType, Reduce op) { return op.op == ReduceOp::Sum && op.factor == 1; }

/// Where two buffers differ first, in a few words; empty if they are equal. For EXPECT_EQ with "".
inline std::string difference(const Bytes& got, const Bytes& expected, DType dtype) {
  if (got == expected) return "";
  if (got.size() != expected.size()) {
    return std::to_string(got.size()) + " bytes instead of " + std::to_string(expected.size());
  }
  const std::size_t size = element_bytes(dtype);
  std::size_t element = 0, count = 0;
  for (std::size_t i = got.size() / size; i-- > 0;) {
    if (std::memcmp(&got[i * size], &expected[i * size], size) == 0) continue;
    element = i;
    ++count;
  }
  const auto bits = [&](const Bytes& bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, &bytes[element * size], size);
    std::array<char, 20> text;
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(word));
    return std::string(text.data());
  };
  return std::to_string(count) + " elements differ, the first is [" + std::to_string(element) +
         "]: bits " + bits(got) + " instead of " + bits(expected);
}

/// Uneven shares with a zero among them: 0, 1, 2, ... parts of the whole, the rest to the last.
inline std::vector<std::int64_t> uneven_counts(int ranks, std::size_t count) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks));
  auto left = static_cast<std::int64_t>(count);
  for (int r = 0; r + 1 < ranks; ++r) {
    auto& mine = counts[static_cast<std::size_t>(r)];
    mine = std::min<std::int64_t>(left, static_cast<std::int64_t>(count) * r / (ranks * ranks));
    left -= mine;
  }
  counts.back() = left;
  return counts;
}

/// Elements of rank r's share begin at [r] and end at [r + 1].
inline std::vector<std::size_t> begins(const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> result = {0};
  for (const std::int64_t count : counts) {
    result.push_back(result.back() + static_cast<std::size_t>(count));
  }
  return result;
}

/// Elements [begin, end).
inline Bytes cut(const Bytes& bytes, DType dtype, std::size_t begin, std::size_t end) {
  const auto size = static_cast<std::ptrdiff_t>(element_bytes(dtype));
  return {bytes.begin() + static_cast<std::ptrdiff_t>(begin) * size,
          bytes.begin() + static_cast<std::ptrdiff_t>(end) * size};
}

}  // namespace tutti::comm::testing
