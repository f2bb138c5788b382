// Ranks that run collectives together. The engine's whole public face: backend::Group wraps it for
// tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/choice.h"
#include "comm/collective.h"
#include "comm/pending.h"

namespace tutti::comm {

struct Signature;      // comm/collectives.h
struct ScheduledWork;  // comm/scheduled.h

/// Measured price of an operation: seconds = latency_s + bytes / bytes_per_s.
struct Cost {
  double latency_s = 0;
  double bytes_per_s = 0;  // of the caller's buffer; 0: nothing to move (a group of one)
  [[nodiscard]] double seconds(std::size_t bytes) const {
    return latency_s + (bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0);
  }
};

/// A group of ranks. Value handle over shared state; a group of one is the identity and costs
/// nothing.
///
/// All ranks of a group issue the same operations in the same order; each operation's descriptor is
/// compared, and a difference is an error on every rank that names both signatures. Operations of
/// one group run in order, those of different groups independently, and may be issued in different
/// orders. Progress is made by the threads that issue, test and wait, and by an executor thread
/// while nobody does. Any thread may call; the threads of a process take turns.
///
/// Bits: unless an algorithm is forced, additions are in the order of the group (rank order; node
/// by node where it spans NUMA nodes, see comm/addition_order.h), in fp32 for half types (rounded
/// once), so all ranks hold the same bits and the bits do not depend on sizes, timing or memory
/// kind. A forced ring, tree, halving, doubling or hierarchical adds in its own order, the
/// same in every run; half types are rounded once even there.
///
/// Every wait has the deadline of CommOptions::timeout_s. After an error the group is poisoned:
/// each later operation and wait throws the first error.
class Communicator {
 public:
  class State;
  Communicator() = default;  // a group of one
  explicit Communicator(std::shared_ptr<State> state) : state_(std::move(state)) {}

  [[nodiscard]] int rank() const;  // 0 <= rank < size
  [[nodiscard]] int size() const;
  [[nodiscard]] const std::string& name() const;  // "dp": for messages

  /// Memory that peers reach directly (this process's arena, 64-byte aligned at least), kept until
  /// the handle and its copies are gone. Its values are unspecified. Throws core::RunError with
  /// sizes if the arena cannot grow; with CommOptions::allow_staging it is plain memory then, and
  /// operations on it are staged. For a group of one: plain memory.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes,
                                                    std::size_t align = 4096) const;

  /// The same pages on every rank of the group: part of rank 0's arena, mapped by the others;
  /// values are unspecified. Collective; blocking. Null where the ranks do not share memory, and in
  /// a dry run. Ranks must agree by other means on who writes what and when; rank 0 keeps its
  /// handle the longest. Throws core::RunError on every rank if rank 0's arena cannot grow.
  [[nodiscard]] std::shared_ptr<std::byte> allocate_shared(std::size_t bytes, Label label);

  /// In place: io becomes the reduction of all ranks' io. Memory outside arenas is staged.
  Pending all_reduce(Buffer io, Reduce op, Label label, ReduceStats* stats = nullptr);

  /// The root's io becomes the reduction of all ranks' io; the others' is scratch afterwards.
  Pending reduce(Buffer io, Reduce op, int root, Label label);

  /// Rank r gets elements [sum(counts[0..r)), + counts[r]) of the reduction. in.count ==
  /// sum(counts), out.count == counts[rank]; counts may be unequal and zero, and are the same on
  /// all ranks. `out` is separate from `in` or exactly this rank's part of it. `in` is scratch
  /// afterwards when in arena memory: other parts have unspecified values.
  Pending reduce_scatter(Buffer out, Buffer in, std::span<const std::int64_t> counts, Reduce op,
                         Label label, ReduceStats* stats = nullptr);

  /// out = all ranks' parts in rank order. in.count == counts[rank], out.count == sum(counts); `in`
  /// is separate from `out` or exactly its place in it.
  Pending all_gather(Buffer out, ConstBuffer in, std::span<const std::int64_t> counts, Label label);

  Pending broadcast(Buffer io, int root, Label label);

  /// Rank r's out becomes part r of the root's `in` (sum(counts) elements; of others it may be
  /// empty). counts as in all_gather. The root's `out` is separate from `in` or exactly its part.
  Pending scatter(Buffer out, ConstBuffer in, std::span<const std::int64_t> counts, int root,
                  Label label);

  /// The root's `out` (of others it may be empty) = all ranks' `in` in rank order.
  Pending gather(Buffer out, ConstBuffer in, std::span<const std::int64_t> counts, int root,
                 Label label);

  /// send_counts[r] elements of `in`, in rank order, go to rank r, and recv_counts[r] come from it,
  /// laid into `out` in rank order. What one rank sends is what the other expects; a difference is
  /// an error that names both. `in` and `out` are separate. At most 2,048 ranks.
  Pending all_to_all(Buffer out, ConstBuffer in, std::span<const std::int64_t> send_counts,
                     std::span<const std::int64_t> recv_counts, Label label);

  Pending barrier(Label label);

  /// FIFO per (sender, receiver, tag). A send completes when the receiver has the bytes or they are
  /// in its slots. 0 <= tag. To coalesce sends and receives, issue them and hold Pending::all().
  Pending send(ConstBuffer data, int peer, int tag, Label label);
  /// `peer` may be kAnySource: the next message of that tag from anybody (Pending::source() says
  /// who). Of one tag a rank receives either by name or from any source at a time, not both.
  Pending recv(Buffer data, int peer, int tag, Label label);
  static constexpr int kAnySource = -1;

  /// Runs whatever can run without waiting (called between a backward's layers). Errors wait for
  /// wait().
  void progress();

  /// The algorithm that an operation of so many bytes would run by, and why (words that last until
  /// the table changes: shrink, grow).
  [[nodiscard]] Choice explain(Collective collective, std::size_t bytes) const;

  /// Measured at wire-up, the same on every rank.
  [[nodiscard]] Cost cost(Collective collective) const;

  /// Whether that rank maps this process's arena (same host).
  [[nodiscard]] bool shares_memory_with(int peer) const;

 private:
  /// Whether there is nothing to communicate: one rank, or a dry run.
  [[nodiscard]] bool quiet() const;
  [[nodiscard]] schedule::Algorithm pick(Collective op, std::size_t bytes) const {
    return explain(op, bytes).algorithm;
  }
  Pending between_parts_and_whole(Collective op, Buffer part, Buffer whole,
                                  std::span<const std::int64_t> counts, int root, Label label);
  Pending submit_scheduled(const Signature& signature, Label label, ScheduledWork work);

  std::shared_ptr<State> state_;  // null: a group of one
};

}  // namespace tutti::comm
