// The public face: checks arguments, picks the operation, answers at once where there is one rank.
#include "comm/communicator.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "comm/collectives.h"
#include "comm/group.h"
#include "comm/p2p.h"
#include "comm/probe.h"
#include "comm/slices.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

// What `extra` of a descriptor compares: shares and statistics, which must be alike everywhere.
std::uint16_t fold(std::span<const std::int64_t> counts, const ReduceStats* stats) {
  std::uint64_t hash = text_hash(stats != nullptr ? "stats" : "plain");
  const auto add = [&hash](std::span<const std::int64_t> values) {
    hash = text_hash({reinterpret_cast<const char*>(values.data()), values.size_bytes()}, hash);
  };
  add(counts);
  if (stats != nullptr) add(stats->block_starts);
  return static_cast<std::uint16_t>(hash ^ (hash >> 16) ^ (hash >> 32) ^ (hash >> 48));
}

void check_op(DType dtype, ReduceOp op) {
  if (op == ReduceOp::Avg && (dtype == DType::Int32 || dtype == DType::Int64)) {
    throw std::invalid_argument(fmt::format(
        "avg of {}: an average of integers would be cut off silently. Use sum and divide, or a "
        "floating-point type.",
        name(dtype)));
  }
}

void check_buffer(const void* data, std::size_t count, const char* which) {
  if (data == nullptr && count > 0) {
    throw std::invalid_argument(fmt::format("{} is null but has {} elements", which, count));
  }
}

void check_pair(const ConstBuffer& out, const ConstBuffer& in) {
  check_buffer(out.data, out.count, "out");
  check_buffer(in.data, in.count, "in");
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

// One rank (or a dry run): the result is the input; statistics are still owed.
void alone(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
           ReduceStats* stats, std::size_t begin, std::size_t whole) {
  if (stats != nullptr) {
    BlockSums sums(*stats, begin, begin + count, whole);
    reduce({dtype, op, 1}, {{in}}, {{out}}, count, &sums);
  } else if (in != out && count > 0) {
    std::memmove(out, in, count * element_bytes(dtype));
  }
}

std::byte* at(const Buffer& buffer, std::size_t element) {
  return static_cast<std::byte*>(buffer.data) + element * element_bytes(buffer.dtype);
}

const std::string kSelf = "self";

}  // namespace

int Communicator::rank() const { return state_ ? state_->rank() : 0; }
int Communicator::size() const { return state_ ? state_->size() : 1; }
const std::string& Communicator::name() const { return state_ ? state_->name() : kSelf; }

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes, std::size_t align) const {
  if (state_ && size() > 1) return state_->engine().arena().allocate(bytes, align);
  if (align < 64 || (align & (align - 1)) != 0) {
    throw std::invalid_argument(fmt::format("alignment {} is no power of two >= 64", align));
  }
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + align - 1) / align * align;
  void* data = whole < bytes ? nullptr : std::aligned_alloc(align, whole);
  if (data == nullptr) {
    throw core::RunError(
        fmt::format("{} bytes of memory are wanted: the host has not got them", bytes));
  }
  std::memset(data, 0, whole);  // as arena memory is
  return {static_cast<std::byte*>(data), [](std::byte* p) { std::free(p); }};
}

Pending Communicator::all_reduce(Buffer io, ReduceOp op, Label label, ReduceStats* stats) {
  check_op(io.dtype, op);
  check_buffer(io.data, io.count, "io");
  auto bounds = even_bounds(io.count, element_bytes(io.dtype), size());
  if (stats != nullptr) {
    bounds = cut_at_blocks(std::move(bounds), stats->block_starts);
    check_stats(*stats, io.dtype, bounds);
  }
  if (size() == 1 || state_->engine().options().dry) {
    const std::size_t begin = bounds[rank()];
    alone(at(io, begin), at(io, begin), bounds[rank() + 1] - begin, io.dtype, op, stats, begin,
          io.count);
    return {};
  }
  const Signature signature = {Collective::AllReduce, io.dtype, op, io.count, 0, fold({}, stats)};
  if (stats == nullptr && io.bytes() <= OneShotOperation::limit(size())) {
    return state_->submit(std::make_shared<OneShotOperation>(state_, signature, label, io));
  }
  return state_->submit(std::make_shared<ReduceOperation>(state_, signature, label,
                                                          std::move(bounds), io, nullptr, stats));
}

Pending Communicator::reduce_scatter(Buffer out, Buffer in, std::span<const std::int64_t> counts,
                                     ReduceOp op, Label label, ReduceStats* stats) {
  check_op(in.dtype, op);
  check_pair(out, in);
  auto bounds = bounds_of(counts, size(), in.count);
  const std::size_t begin = bounds[rank()], share = bounds[rank() + 1] - begin;
  check_share(out, in, begin, share);
  if (stats != nullptr) check_stats(*stats, in.dtype, bounds);
  if (size() == 1 || state_->engine().options().dry) {
    alone(at(in, begin), out.data, share, in.dtype, op, stats, begin, in.count);
    return {};
  }
  const Signature signature = {Collective::ReduceScatter, in.dtype, op, in.count, 0,
                               fold(counts, stats)};
  return state_->submit(std::make_shared<ReduceOperation>(state_, signature, label,
                                                          std::move(bounds), in, out.data, stats));
}

Pending Communicator::all_gather(Buffer out, ConstBuffer in, std::span<const std::int64_t> counts,
                                 Label label) {
  check_pair(out, in);
  auto bounds = bounds_of(counts, size(), out.count);
  const std::size_t begin = bounds[rank()], share = bounds[rank() + 1] - begin;
  check_share(in, out, begin, share);
  if (size() == 1 || state_->engine().options().dry) {
    alone(in.data, at(out, begin), share, in.dtype, ReduceOp::Sum, nullptr, 0, share);
    return {};
  }
  const Signature signature = {Collective::AllGather, out.dtype, ReduceOp::Sum, out.count, 0,
                               fold(counts, nullptr)};
  return state_->submit(
      std::make_shared<GatherOperation>(state_, signature, label, std::move(bounds), out, in));
}

Pending Communicator::broadcast(Buffer io, int root, Label label) {
  check_buffer(io.data, io.count, "io");
  if (root < 0 || root >= size()) {
    throw std::invalid_argument(fmt::format("root {} is none of the {} ranks", root, size()));
  }
  if (size() == 1 || state_->engine().options().dry) return {};
  std::vector<std::size_t> bounds(size() + 1, 0);  // the root's share is everything
  for (int r = root + 1; r <= size(); ++r) bounds[r] = io.count;
  const Signature signature = {Collective::Broadcast,
                               io.dtype,
                               ReduceOp::Sum,
                               io.count,
                               static_cast<std::uint16_t>(root),
                               0};
  const ConstBuffer in = {io.data, rank() == root ? io.count : 0, io.dtype};
  return state_->submit(
      std::make_shared<GatherOperation>(state_, signature, label, std::move(bounds), io, in));
}

Pending Communicator::barrier(Label label) {
  if (size() == 1 || state_->engine().options().dry) return {};
  const Signature signature = {Collective::Barrier};
  return state_->submit(std::make_shared<CollectiveOperation>(state_, signature, label));
}

Pending Communicator::send(ConstBuffer data, int peer, int tag, Label label) {
  check_buffer(data.data, data.count, "data");
  if (peer < 0 || peer >= size() || peer == rank()) {
    throw std::invalid_argument(fmt::format(
        "send to rank {} from rank {} of {}: another rank is needed", peer, rank(), size()));
  }
  if (state_->engine().options().dry) return {};
  return state_->submit_send(std::make_shared<SendOperation>(state_, data, peer, tag, label), peer);
}

Pending Communicator::recv(Buffer data, int peer, int tag, Label label) {
  check_buffer(data.data, data.count, "data");
  if (peer < 0 || peer >= size() || peer == rank()) {
    throw std::invalid_argument(fmt::format(
        "recv from rank {} on rank {} of {}: another rank is needed", peer, rank(), size()));
  }
  if (state_->engine().options().dry) return {};
  return state_->submit_recv(std::make_shared<RecvOperation>(state_, data, peer, tag, label), peer,
                             tag);
}

void Communicator::progress() {
  if (!state_ || size() == 1) return;
  const auto alive = state_;
  if (!alive->engine().progress()) alive->engine().idle_poll();
}

Cost Communicator::cost(Collective collective) const {
  if (!state_ || size() == 1) return {};
  return measured_cost(state_->engine().world(), size(), collective);
}

bool Communicator::shares_memory_with(int peer) const {
  if (peer < 0 || peer >= size()) {
    throw std::invalid_argument(fmt::format("rank {} is none of the {} ranks", peer, size()));
  }
  return true;  // so far every rank of a world is on this host
}

}  // namespace tutti::comm
