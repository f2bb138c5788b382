// Collectives over shared memory as state machines. Common to all: arrive, compare, work, leave.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/group.h"
#include "comm/operation.h"
#include "comm/reduce.h"

namespace tutti::comm {

/// What all ranks must say alike; compared as soon as all have arrived.
struct Signature {
  Collective op = Collective::Barrier;
  DType dtype = DType::Float32;
  ReduceOp redop = ReduceOp::Sum;
  std::uint64_t count = 0;
  std::uint16_t root = 0;
  std::uint16_t extra = 0;
  [[nodiscard]] std::string text() const;
};

/// Arrival: publishes the descriptor, waits for everybody's, compares. A barrier is no more.
class CollectiveOperation : public Operation {
 public:
  CollectiveOperation(std::shared_ptr<Group> group, const Signature& signature, Label label);

  Progress step() final;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::string signature() const override { return signature_.text(); }
  [[nodiscard]] std::size_t bytes() const override {
    return signature_.count * element_bytes(signature_.dtype);
  }

 protected:
  /// Before the descriptor is published: fills addresses in, copies what others will read.
  virtual void prepare(OpDescriptor& /*mine*/) {}
  /// Once all have arrived and agree.
  virtual void arrived() {}
  /// The rest, until Done.
  virtual Progress run() { return Progress::Done; }

  /// Enters a sync; after_sync() says when everybody has.
  void enter_sync();
  [[nodiscard]] bool after_sync();
  /// Fills in the descriptor where the others find `bytes` from `data`; false if not in the arena.
  bool register_buffer(OpDescriptor& mine, const void* data, std::size_t bytes) const;
  [[nodiscard]] const OpDescriptor& descriptor(int rank) const;

  Signature signature_;

 private:
  void publish();
  bool everybody_arrived();
  void compare(int rank) const;

  enum class Phase { Queued, Arriving, Running } phase_ = Phase::Queued;
  int next_ = 0;  // first rank not yet seen in the wait at hand
  std::optional<std::uint32_t> sync_;
};

/// Work in chunks that each touch one piece of every rank's share, the same for direct access and
/// for staging. Chunk c of rank r's share is piece [b(r) + c*q, +q) of it, q the largest piece.
///
/// Direct: one chunk of everything, then one sync, as peers read and write the callers' buffers.
/// Staged: q elements fit into a half of the staging memory; chunks alternate between two halves.
/// A rank copies chunk c + 1 in after its work on c, then syncs: behind that sync, work on c is
/// over everywhere (so half c may be copied out and then refilled) and c + 1 can be read.
class ChunkedOperation : public CollectiveOperation {
 public:
  ChunkedOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                   std::vector<std::size_t> bounds);

 protected:
  struct Piece {
    std::size_t begin = 0, count = 0;  // elements of the whole buffer
    std::size_t staged_at = 0;         // element inside a staging half
  };

  void prepare(OpDescriptor& mine) final;
  void arrived() override;
  Progress run() final;

  /// What of this rank's memory others read; must lie in the arena for direct access.
  [[nodiscard]] virtual ConstBuffer shared() const = 0;
  /// Whether a staging half holds a piece for every rank, or only this rank's.
  [[nodiscard]] virtual bool pieces_of_all() const = 0;
  virtual void copy_in(std::size_t chunk) = 0;
  virtual void work(std::size_t chunk) = 0;
  virtual void copy_out(std::size_t /*chunk*/) {}

  [[nodiscard]] Piece piece(int rank, std::size_t chunk) const;
  /// Where `rank` holds elements of a piece for others: its buffer (element 0 of it = element
  /// `first` of the whole), or its staging half.
  [[nodiscard]] std::byte* source(int rank, const Piece& piece, std::size_t chunk,
                                  std::size_t first) const;
  [[nodiscard]] std::byte* staging_half(std::size_t chunk) const;
  [[nodiscard]] bool staged() const { return staged_; }           // this rank's memory is staged
  [[nodiscard]] std::size_t size_of() const { return element_; }  // bytes of an element
  [[nodiscard]] std::size_t bound(int rank) const { return bounds_[rank]; }

 private:
  [[nodiscard]] std::size_t staged_piece() const;

  std::vector<std::size_t> bounds_;
  std::size_t element_;
  std::vector<std::byte*> bases_;  // per rank: its buffer or its staging
  std::vector<bool> rank_staged_;
  std::size_t piece_ = 0, chunks_ = 0, chunk_ = 0;
  bool staged_ = false;
  bool syncing_ = false;
};

/// all_reduce (`everywhere`: results are stored into every rank's buffer) and reduce_scatter.
class ReduceOperation final : public ChunkedOperation {
 public:
  ReduceOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                  std::vector<std::size_t> bounds, Buffer in, void* out, ReduceStats* stats);

 private:
  [[nodiscard]] ConstBuffer shared() const override { return in_; }
  [[nodiscard]] bool pieces_of_all() const override { return true; }
  void copy_in(std::size_t chunk) override;
  void work(std::size_t chunk) override;
  void copy_out(std::size_t chunk) override;
  [[nodiscard]] bool everywhere() const { return signature_.op == Collective::AllReduce; }
  [[nodiscard]] std::byte* local(std::size_t element) const {
    return static_cast<std::byte*>(in_.data) + element * size_of();
  }

  Buffer in_;
  std::byte* out_;  // of reduce_scatter
  std::optional<BlockSums> sums_;
};

/// all_gather; broadcast is one in which only the root has a share.
class GatherOperation final : public ChunkedOperation {
 public:
  GatherOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                  std::vector<std::size_t> bounds, Buffer out, ConstBuffer in);

 private:
  [[nodiscard]] ConstBuffer shared() const override { return in_; }
  [[nodiscard]] bool pieces_of_all() const override { return false; }
  void copy_in(std::size_t chunk) override;
  void work(std::size_t chunk) override;

  Buffer out_;
  ConstBuffer in_;
};

/// A small all_reduce: everybody lays its values into the descriptor (24 bytes) or a slot beside it
/// and reduces all of them itself. One sync, any memory.
class OneShotOperation final : public CollectiveOperation {
 public:
  OneShotOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                   Buffer io);
  /// Largest buffer for which this is the faster way, in bytes; the same on every rank.
  [[nodiscard]] static std::size_t limit(int ranks);

 private:
  void prepare(OpDescriptor& mine) override;
  Progress run() override;

  Buffer io_;
};

}  // namespace tutti::comm
