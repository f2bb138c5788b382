// Ranks that communicate, for tensors. A thin, checked face of comm::Communicator.
// Collective, ReduceOp, Label, Pending and ReduceStats are comm's.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "tensor/torch.h"

namespace tutti::backend {

using comm::Collective;
using comm::Cost;
using comm::Label;
using comm::Pending;
using comm::Reduce;
using comm::ReduceOp;
using comm::ReduceStats;

/// Value handle; a group of one is the identity, so callers need no "if (dp > 1)".
/// Tensors must be contiguous, on the CPU, of a type that comm::DType has; else
/// std::invalid_argument. They are the caller's and must not be touched until the Pending is done.
/// What each operation does, and what it refuses: comm::Communicator, whose names these are.
class Group {
 public:
  Group() = default;  // a group of one
  explicit Group(comm::Communicator communicator) : comm_(std::move(communicator)) {}

  [[nodiscard]] int rank() const { return comm_.rank(); }
  [[nodiscard]] int size() const { return comm_.size(); }
  [[nodiscard]] const std::string& name() const { return comm_.name(); }

  /// Memory that peers reach directly, of unspecified values. The tensor owns its share of the
  /// arena.
  [[nodiscard]] at::Tensor allocate(at::IntArrayRef shape, at::ScalarType type) const;

  /// The same memory on every rank, of unspecified values. Collective. Undefined where the ranks
  /// share no memory. Who writes what and when is the callers' agreement.
  [[nodiscard]] at::Tensor allocate_shared(at::IntArrayRef shape, at::ScalarType type, Label label);

  Pending all_reduce(const at::Tensor& io, Reduce op, Label label, ReduceStats* stats = nullptr);
  /// The root's io becomes the reduction; the others' is scratch afterwards.
  Pending reduce(const at::Tensor& io, Reduce op, int root, Label label);
  /// Rank r gets counts[r] elements of the reduction of `in`; `out` is separate from `in` or
  /// exactly that part of it.
  Pending reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                         std::span<const std::int64_t> counts, Reduce op, Label label,
                         ReduceStats* stats = nullptr);
  Pending all_gather(const at::Tensor& out, const at::Tensor& in,
                     std::span<const std::int64_t> counts, Label label);
  Pending broadcast(const at::Tensor& io, int root, Label label);
  /// `in` matters on the root only, `out` of gather as well; elsewhere they may be empty.
  Pending scatter(const at::Tensor& out, const at::Tensor& in, std::span<const std::int64_t> counts,
                  int root, Label label);
  Pending gather(const at::Tensor& out, const at::Tensor& in, std::span<const std::int64_t> counts,
                 int root, Label label);
  Pending all_to_all(const at::Tensor& out, const at::Tensor& in,
                     std::span<const std::int64_t> send_counts,
                     std::span<const std::int64_t> recv_counts, Label label);
  Pending barrier(Label label) { return comm_.barrier(label); }
  Pending send(const at::Tensor& data, int peer, int tag, Label label);
  /// `peer` may be comm::Communicator::kAnySource.
  Pending recv(const at::Tensor& data, int peer, int tag, Label label);

  /// Runs what can run without waiting.
  void progress() { comm_.progress(); }

  [[nodiscard]] Cost cost(Collective collective) const { return comm_.cost(collective); }
  [[nodiscard]] bool shares_pages_with(int peer) const { return comm_.shares_memory_with(peer); }

 private:
  comm::Communicator comm_;
};

}  // namespace tutti::backend
