// The public face: checks arguments, picks the operation, answers at once where there is one rank.
#include "comm/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "comm/arguments.h"
#include "comm/collectives.h"
#include "comm/group.h"
#include "comm/p2p.h"
#include "comm/probe.h"
#include "comm/scheduled.h"
#include "comm/slices.h"

namespace tutti::comm {
namespace {

// What `extra` of a descriptor compares: shares, statistics and factor, which must be alike
// everywhere. Most operations have none of them.
std::uint64_t fold(std::span<const std::int64_t> counts, const ReduceStats* stats,
                   double factor = 1) {
  if (counts.empty() && stats == nullptr && factor == 1) return 0;
  std::uint64_t hash = text_hash(stats != nullptr ? "stats" : "plain");
  const auto add = [&hash](const void* data, std::size_t bytes) {
    hash = text_hash({static_cast<const char*>(data), bytes}, hash);
  };
  add(counts.data(), counts.size_bytes());
  if (stats != nullptr) add(stats->block_starts.data(), stats->block_starts.size_bytes());
  if (factor != 1) add(&factor, sizeof(factor));
  return hash;
}

// One rank (or a dry run): the result is the input; statistics are still owed.
void alone(const void* in, void* out, std::size_t count, DType dtype, Reduce op, ReduceStats* stats,
           std::size_t begin, std::size_t whole) {
  if (stats != nullptr) {
    BlockSums sums(*stats, begin, begin + count, whole);
    reduce({dtype, op, 1}, {{in}}, {{out}}, count, &sums);
  } else if (op.factor != 1 && count > 0) {
    reduce({dtype, op, 1}, {{in}}, {{out}}, count, nullptr);
  } else if (in != out && count > 0) {
    std::memmove(out, in, count * element_bytes(dtype));
  }
}

std::byte* at(const Buffer& buffer, std::size_t element) {
  return static_cast<std::byte*>(buffer.data) + element * element_bytes(buffer.dtype);
}

schedule::CollectiveRequest request_of(Collective op, const Communicator::State& group,
                                       schedule::Algorithm algorithm, std::size_t elements) {
  schedule::CollectiveRequest request;
  request.operation = schedule_operation(op);
  request.algorithm = algorithm;
  request.ranks = group.size();
  request.elements = elements;
  if (algorithm == schedule::Algorithm::Hierarchical) {
    const GroupMap& map = group.map();
    request.group = map.flat() ? subgroup_size(map.ranks) : map.run;
    // Adds the runs' sums in their order.
    if (op == Collective::AllReduce) request.between = schedule::Algorithm::Direct;
  }
  return request;
}

// Which rank reduces what of an all-reduce; checks the statistics.
std::vector<std::size_t> shares_of(const Buffer& io, const ReduceStats* stats, int ranks) {
  auto bounds = even_bounds(io.count, element_bytes(io.dtype), ranks);
  if (stats == nullptr) return bounds;
  bounds = cut_at_blocks(std::move(bounds), stats->block_starts);
  check_stats(*stats, io.dtype, bounds);
  return bounds;
}

std::vector<std::size_t> sizes(std::span<const std::int64_t> counts) {
  return {counts.begin(), counts.end()};
}

const std::string kSelf = "self";

}  // namespace

int Communicator::rank() const { return state_ ? state_->rank() : 0; }
int Communicator::size() const { return state_ ? state_->size() : 1; }
const std::string& Communicator::name() const { return state_ ? state_->name() : kSelf; }

bool Communicator::quiet() const { return size() == 1 || state_->engine().options().dry; }

Choice Communicator::explain(Collective collective, std::size_t bytes) const {
  if (size() == 1) return {schedule::Algorithm::Inline, "one rank: nothing to do"};
  return choose(state_->engine().forced(), state_->engine().table(), collective, state_->map(),
                bytes);
}

Pending Communicator::submit_scheduled(const Signature& signature, Label label,
                                       ScheduledWork work) {
  return state_->submit(
      std::make_shared<ScheduledOperation>(state_, signature, label, std::move(work)));
}

Pending Communicator::all_reduce(Buffer io, Reduce op, Label label, ReduceStats* stats) {
  check_op(io.dtype, op);
  check_buffer(io, "io");
  if (quiet()) {
    const auto bounds = shares_of(io, stats, size());
    const std::size_t begin = bounds[rank()];
    alone(at(io, begin), at(io, begin), bounds[rank() + 1] - begin, io.dtype, op, stats, begin,
          io.count);
    return {};
  }
  const Engine::Lock lock(state_->engine());
  schedule::Algorithm algorithm = pick(Collective::AllReduce, io.bytes());
  const bool at_once =
      algorithm == schedule::Algorithm::Inline || algorithm == schedule::Algorithm::OneShot;
  if (at_once && stats != nullptr) algorithm = schedule::Algorithm::Direct;  // it has no shares
  const Signature signature = {Collective::AllReduce,      io.dtype, op, io.count, 0,
                               fold({}, stats, op.factor), algorithm};
  if (at_once && stats == nullptr && io.bytes() <= ControlBlock::kOneShotBytes) {
    return state_->submit_one_shot(signature, label, io);
  }
  auto bounds = shares_of(io, stats, size());
  if (algorithm == schedule::Algorithm::Direct || algorithm == schedule::Algorithm::Staged) {
    return state_->submit_reduce(signature, label, std::move(bounds), io, stats);
  }
  ScheduledWork work;
  work.request = request_of(Collective::AllReduce, *state_, algorithm, io.count);
  work.home = work.load = work.store = {io.data, 0, io.count};
  work.stats = stats;
  work.bounds = std::move(bounds);
  return submit_scheduled(signature, label, std::move(work));
}

Pending Communicator::reduce(Buffer io, Reduce op, int root, Label label) {
  check_op(io.dtype, op);
  check_buffer(io, "io");
  check_root(root, size());
  if (quiet()) {
    alone(io.data, io.data, io.count, io.dtype, op, nullptr, 0, io.count);
    return {};
  }
  const Engine::Lock lock(state_->engine());
  const schedule::Algorithm algorithm = pick(Collective::Reduce, io.bytes());
  ScheduledWork work;
  work.request = request_of(Collective::Reduce, *state_, algorithm, io.count);
  work.request.root = root;
  work.home = work.load = {io.data, 0, io.count};
  if (rank() == root) work.store = work.home;
  return submit_scheduled(
      {Collective::Reduce, io.dtype, op, io.count, static_cast<std::uint16_t>(root),
       fold({}, nullptr, op.factor), algorithm},
      label, std::move(work));
}

Pending Communicator::reduce_scatter(Buffer out, Buffer in, std::span<const std::int64_t> counts,
                                     Reduce op, Label label, ReduceStats* stats) {
  check_op(in.dtype, op);
  check_pair(out, in);
  auto bounds = bounds_of(counts, size(), in.count);
  const std::size_t begin = bounds[rank()], share = bounds[rank() + 1] - begin;
  check_share(out, in, begin, share);
  if (stats != nullptr) check_stats(*stats, in.dtype, bounds);
  if (quiet()) {
    alone(at(in, begin), out.data, share, in.dtype, op, stats, begin, in.count);
    return {};
  }
  const Engine::Lock lock(state_->engine());
  const schedule::Algorithm algorithm = pick(Collective::ReduceScatter, in.bytes());
  const Signature signature = {Collective::ReduceScatter,      in.dtype, op, in.count, 0,
                               fold(counts, stats, op.factor), algorithm};
  if (algorithm == schedule::Algorithm::Direct) {
    return state_->submit(std::make_shared<ReduceOperation>(
        state_, signature, label, std::move(bounds), in, out.data, stats));
  }
  ScheduledWork work;
  work.request = request_of(Collective::ReduceScatter, *state_, algorithm, in.count);
  work.request.counts = sizes(counts);
  work.home = work.load = {in.data, 0, in.count};
  work.store = {out.data, begin, share};
  work.stats = stats;
  work.bounds = std::move(bounds);
  return submit_scheduled(signature, label, std::move(work));
}

Pending Communicator::all_gather(Buffer out, ConstBuffer in, std::span<const std::int64_t> counts,
                                 Label label) {
  check_pair(out, in);
  auto bounds = bounds_of(counts, size(), out.count);
  const std::size_t begin = bounds[rank()], share = bounds[rank() + 1] - begin;
  check_share(in, out, begin, share);
  if (quiet()) {
    alone(in.data, at(out, begin), share, in.dtype, ReduceOp::Sum, nullptr, 0, share);
    return {};
  }
  const Engine::Lock lock(state_->engine());
  const schedule::Algorithm algorithm = pick(Collective::AllGather, out.bytes());
  const Signature signature = {Collective::AllGather, out.dtype, ReduceOp::Sum, out.count, 0,
                               fold(counts, nullptr), algorithm};
  if (algorithm == schedule::Algorithm::Direct) {
    return state_->submit(
        std::make_shared<GatherOperation>(state_, signature, label, std::move(bounds), out, in));
  }
  ScheduledWork work;
  work.request = request_of(Collective::AllGather, *state_, algorithm, out.count);
  work.request.counts = sizes(counts);
  work.home = work.store = {out.data, 0, out.count};
  work.load = {const_cast<void*>(in.data), begin, share};
  return submit_scheduled(signature, label, std::move(work));
}

Pending Communicator::broadcast(Buffer io, int root, Label label) {
  check_buffer(io, "io");
  check_root(root, size());
  if (quiet()) return {};
  const Engine::Lock lock(state_->engine());
  const schedule::Algorithm algorithm = pick(Collective::Broadcast, io.bytes());
  const Signature signature = {Collective::Broadcast,
                               io.dtype,
                               ReduceOp::Sum,
                               io.count,
                               static_cast<std::uint16_t>(root),
                               0,
                               algorithm};
  if (algorithm == schedule::Algorithm::Direct) {
    return state_->submit(std::make_shared<BroadcastOperation>(state_, signature, label,
                                                               shares_of(io, nullptr, size()), io));
  }
  ScheduledWork work;
  work.request = request_of(Collective::Broadcast, *state_, algorithm, io.count);
  work.request.root = root;
  work.home = work.store = {io.data, 0, io.count};
  if (rank() == root) work.load = work.home;
  return submit_scheduled(signature, label, std::move(work));
}

Pending Communicator::scatter(Buffer out, ConstBuffer in, std::span<const std::int64_t> counts,
                              int root, Label label) {
  check_root(root, size());
  if (rank() == root) check_pair(out, in);
  const Buffer whole = {const_cast<void*>(in.data), in.count, in.dtype};  // only read
  return between_parts_and_whole(Collective::Scatter, out, whole, counts, root, label);
}

Pending Communicator::gather(Buffer out, ConstBuffer in, std::span<const std::int64_t> counts,
                             int root, Label label) {
  check_root(root, size());
  if (rank() == root) check_pair(out, in);
  const Buffer part = {const_cast<void*>(in.data), in.count, in.dtype};  // only read
  return between_parts_and_whole(Collective::Gather, part, out, counts, root, label);
}

// Scatter and gather: the same memory, in opposite directions. Only the root's Data is looked at by
// others; a direct list touches the own part alone elsewhere.
Pending Communicator::between_parts_and_whole(Collective op, Buffer part, Buffer whole,
                                              std::span<const std::int64_t> counts, int root,
                                              Label label) {
  const bool is_root = rank() == root, scatters = op == Collective::Scatter;
  const auto bounds = bounds_of(counts, size());
  const std::size_t begin = bounds[rank()], share = bounds[rank() + 1] - begin;
  check_buffer(part, scatters ? "out" : "in");
  check_root_buffer(whole, is_root, bounds.back(), scatters ? "in" : "out");
  if (!is_root) whole = {nullptr, 0, part.dtype};
  check_share(part, whole, begin, share);
  if (quiet()) {
    if (!is_root) return {};
    void* const place = at(whole, begin);
    alone(scatters ? place : part.data, scatters ? part.data : place, share, part.dtype,
          ReduceOp::Sum, nullptr, 0, share);
    return {};
  }
  const Engine::Lock lock(state_->engine());
  const schedule::Algorithm algorithm = pick(op, bounds.back() * element_bytes(part.dtype));
  ScheduledWork work;
  work.request = request_of(op, *state_, algorithm, bounds.back());
  work.request.counts = sizes(counts);
  work.request.root = root;
  work.shared = is_root;
  const DataPart own = {part.data, begin, share}, all = {whole.data, 0, bounds.back()};
  if (is_root) {
    work.home = all;
  } else if (algorithm == schedule::Algorithm::Direct) {
    work.home = own;
  }
  (scatters ? work.store : work.load) = own;
  if (is_root) (scatters ? work.load : work.store) = all;
  return submit_scheduled({op, part.dtype, ReduceOp::Sum, bounds.back(),
                           static_cast<std::uint16_t>(root), fold(counts, nullptr), algorithm},
                          label, std::move(work));
}

Pending Communicator::all_to_all(Buffer out, ConstBuffer in,
                                 std::span<const std::int64_t> send_counts,
                                 std::span<const std::int64_t> recv_counts, Label label) {
  check_pair(out, in);
  bounds_of(send_counts, size(), in.count);
  bounds_of(recv_counts, size(), out.count);
  check_apart(out, in);
  if (send_counts.size_bytes() > ControlBlock::kOneShotBytes) {
    throw std::invalid_argument(fmt::format("all_to_all of {} ranks: at most {} are possible",
                                            size(), ControlBlock::kOneShotBytes / 8));
  }
  if (quiet()) {
    const std::size_t count = std::min(in.count, out.count);
    if (count > 0) std::memcpy(out.data, in.data, count * element_bytes(in.dtype));
    return {};
  }
  const Engine::Lock lock(state_->engine());
  // Sizes differ between ranks, so the size may not decide: the table's row for everything does.
  const schedule::Algorithm algorithm = pick(Collective::AllToAll, 0);
  ScheduledWork work;
  work.request = request_of(Collective::AllToAll, *state_, algorithm, out.count);
  work.home = work.store = {out.data, 0, out.count};
  work.shared = false;
  work.input = in;
  work.send_counts = send_counts;
  work.recv_counts = recv_counts;
  return submit_scheduled({Collective::AllToAll, in.dtype, ReduceOp::Sum, 0, 0, 0, algorithm},
                          label, std::move(work));
}

Pending Communicator::barrier(Label label) {
  if (quiet()) return {};
  const Engine::Lock lock(state_->engine());
  Signature signature;
  signature.op = Collective::Barrier;
  return state_->submit(std::make_shared<CollectiveOperation>(state_, signature, label));
}

Pending Communicator::send(ConstBuffer data, int peer, int tag, Label label) {
  check_buffer(data, "data");
  check_partner("send to", peer, rank(), size(), tag);
  if (state_->engine().options().dry) return {};
  const Engine::Lock lock(state_->engine());
  return state_->submit_send(std::make_shared<SendOperation>(state_, data, peer, tag, label), peer);
}

Pending Communicator::recv(Buffer data, int peer, int tag, Label label) {
  check_buffer(data, "data");
  if (peer != kAnySource || size() == 1) check_partner("recv from", peer, rank(), size(), tag);
  if (state_->engine().options().dry) return {};
  const Engine::Lock lock(state_->engine());
  return state_->submit_recv(std::make_shared<RecvOperation>(state_, data, peer, tag, label), peer,
                             tag);
}

void Communicator::progress() {
  if (!state_ || size() == 1) return;
  const auto alive = state_;
  Engine& engine = alive->engine();
  const Engine::Lock lock(engine);
  engine.check_process();
  if (!engine.progress()) engine.idle_poll();
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
