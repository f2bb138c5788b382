// What a caller may pass to a collective; everything else is refused by name.
#include "comm/arguments.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

namespace tutti::comm {

void check_op(DType dtype, Reduce reduce) {
  const ReduceOp op = reduce.op;
  const bool of_bits = op == ReduceOp::BitAnd || op == ReduceOp::BitOr || op == ReduceOp::BitXor;
  if (op == ReduceOp::Avg && !floating(dtype)) {
    throw std::invalid_argument(fmt::format(
        "avg of {}: an average of integers would be cut off silently. Use sum and divide, or a "
        "floating-point type.",
        name(dtype)));
  }
  if (of_bits && floating(dtype)) {
    throw std::invalid_argument(
        fmt::format("{} of {}: bit operations are for integers and bool.", name(op), name(dtype)));
  }
  if (reduce.factor != 1 && (op != ReduceOp::Sum || !floating(dtype))) {
    throw std::invalid_argument(
        fmt::format("{} of {} scaled by {}: only sums of floating-point types are scaled.",
                    name(op), name(dtype), reduce.factor));
  }
}

void check_buffer(const ConstBuffer& buffer, const char* which) {
  const std::size_t element = element_bytes(buffer.dtype);
  if (buffer.data == nullptr && buffer.count > 0) {
    throw std::invalid_argument(fmt::format("{} is null but has {} elements", which, buffer.count));
  }
  if (buffer.count >
      static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / element) {
    throw std::invalid_argument(fmt::format("{} has {} elements {}: no memory holds so many", which,
                                            buffer.count, name(buffer.dtype)));
  }
  if (buffer.count > 0 && reinterpret_cast<std::uintptr_t>(buffer.data) % element != 0) {
    throw std::invalid_argument(
        fmt::format("{} lies at {}, which is no multiple of {} bytes, the size of {}", which,
                    fmt::ptr(buffer.data), element, name(buffer.dtype)));
  }
}

void check_pair(const ConstBuffer& out, const ConstBuffer& in) {
  check_buffer(out, "out");
  check_buffer(in, "in");
  if (out.dtype != in.dtype) {
    throw std::invalid_argument(
        fmt::format("out holds {}, in holds {}", name(out.dtype), name(in.dtype)));
  }
}

// A buffer that holds `own` elements of one rank, beside `whole` with bounds: separate or in place.
void check_share(const ConstBuffer& own, const ConstBuffer& whole, std::size_t begin,
                 std::size_t expected) {
  if (own.count != expected) {
    throw std::invalid_argument(fmt::format(
        "this rank's share is {} elements by its count, its buffer has {}", expected, own.count));
  }
  const auto* from = static_cast<const std::byte*>(whole.data);
  const auto* data = static_cast<const std::byte*>(own.data);
  const bool apart = own.count == 0 || whole.count == 0 || data + own.bytes() <= from ||
                     from + whole.bytes() <= data;
  if (!apart && data != from + begin * element_bytes(own.dtype)) {
    throw std::invalid_argument(
        "the two buffers overlap: they must be separate, or one exactly this rank's part of the "
        "other");
  }
}

void check_apart(const ConstBuffer& out, const ConstBuffer& in) {
  const auto* a = static_cast<const std::byte*>(out.data);
  const auto* b = static_cast<const std::byte*>(in.data);
  if (out.count == 0 || in.count == 0 || a + out.bytes() <= b || b + in.bytes() <= a) return;
  throw std::invalid_argument("in and out overlap: all_to_all needs two separate buffers");
}

void check_root(int root, int ranks) {
  if (root >= 0 && root < ranks) return;
  throw std::invalid_argument(fmt::format("root {} is none of the {} ranks", root, ranks));
}

void check_root_buffer(const ConstBuffer& whole, bool is_root, std::size_t expected,
                       const char* which) {
  if (!is_root || whole.count == expected) return;
  throw std::invalid_argument(fmt::format("counts add up to {} elements but the root's {} has {}",
                                          expected, which, whole.count));
}

void check_partner(const char* what, int peer, int rank, int ranks, int tag) {
  if (peer < 0 || peer >= ranks || peer == rank) {
    throw std::invalid_argument(fmt::format("{} rank {} on rank {} of {}: another rank is needed",
                                            what, peer, rank, ranks));
  }
  if (tag < 0) throw std::invalid_argument(fmt::format("tag {} is negative", tag));
}

}  // namespace tutti::comm
