// The words of the engine: what an operation is, on which elements, under which name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

enum class DType : std::uint8_t {
  Float32,
  Float64,
  BFloat16,
  Int32,
  Int64,
  Float16,
  Int8,
  Int16,
  UInt8,
  Bool,  // one byte; whatever is not 0 is true, results are 0 or 1
};
inline constexpr std::size_t kNumDTypes = 10;

/// Bit operations are for integers and Bool. Of Bools, Sum is "or" and Product is "and", as in
/// torch.distributed. Avg is for floating-point types only.
enum class ReduceOp : std::uint8_t { Sum, Avg, Max, Min, Product, BitAnd, BitOr, BitXor };

/// What becomes of the ranks' values. `factor` multiplies every value before it is added (Sum of
/// floating-point types only), in the type that sums are kept in: half types are rounded once.
struct Reduce {
  ReduceOp op = ReduceOp::Sum;
  double factor = 1;
  Reduce() = default;
  Reduce(ReduceOp op, double factor = 1) : op(op), factor(factor) {}  // NOLINT: calls read well
};

enum class Collective : std::uint8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  Barrier,
  Send,
  Recv,
  Reduce,
  Scatter,
  Gather,
  AllToAll,
};

constexpr std::size_t element_bytes(DType dtype) {
  constexpr std::array<std::size_t, kNumDTypes> kBytes = {4, 8, 2, 4, 8, 2, 1, 2, 1, 1};
  return kBytes[static_cast<std::size_t>(dtype)];
}
/// fp64, fp32, bf16, fp16.
constexpr bool floating(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::Float64 || dtype == DType::BFloat16 ||
         dtype == DType::Float16;
}
std::string_view name(DType dtype);
std::string_view name(ReduceOp op);
std::string_view name(Collective collective);

/// `count` elements that the caller owns and leaves alone until the operation is done.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::Float32;
  [[nodiscard]] std::size_t bytes() const { return count * element_bytes(dtype); }
};
struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::Float32;
  ConstBuffer() = default;
  ConstBuffer(const void* data, std::size_t count, DType dtype)
      : data(data), count(count), dtype(dtype) {}
  ConstBuffer(const Buffer& other)
      : ConstBuffer(other.data, other.count, other.dtype) {}  // NOLINT: a view
  [[nodiscard]] std::size_t bytes() const { return count * element_bytes(dtype); }
};

/// What an operation moves, for messages and traces: "bucket 3 (blocks.7.fc.weight ...
/// blocks.7.proj.bias)". The text must live until the operation is done.
struct Label {
  std::string_view text;
  Label(std::string_view text = {}) : text(text) {}  // NOLINT: implicit, so that calls read well
  Label(const std::string& text) : text(text) {}     // NOLINT
  Label(const char* text) : text(text) {}            // NOLINT
};

/// What a reduction found out about its result, for free: it had every element in a register.
/// Floating-point types only. `block_starts` is the caller's (input); the rest is filled when the
/// operation is done.
///
/// Blocks are pieces of the reduced buffer that never lie across two ranks' shares: ascending first
/// elements, the last block ends with the buffer. A block's sum does not depend on the number of
/// ranks or on how the buffer is cut.
struct ReduceStats {
  std::span<const std::int64_t> block_starts;  // elements of the whole buffer

  int first_block = 0;  // blocks this rank reduced: [first_block, first_block + squares.size())
  std::vector<double>
      squares;  // sum of squares of the *result* (after Avg's division), per such block
  std::vector<std::uint64_t>
      not_finite;  // per such block: bit r = rank r (mod 64) brought an infinity or NaN; 0 = fine
};

}  // namespace tutti::comm
