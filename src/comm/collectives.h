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
#include "comm/small_list.h"
#include "schedule/collective.h"

namespace tutti::comm {

/// What all ranks must say alike; compared as soon as all have arrived.
struct Signature {
  Collective op = Collective::Barrier;
  DType dtype = DType::Float32;
  Reduce reduce;
  std::uint64_t count = 0;
  std::uint16_t root = 0;
  std::uint64_t extra = 0;  // hash of counts, block starts and factor; 0: it has none of them
  schedule::Algorithm algorithm = schedule::Algorithm::Direct;
  [[nodiscard]] std::size_t bytes() const { return count * element_bytes(dtype); }
  [[nodiscard]] std::string text() const;
};

/// Arrival: publishes the descriptor, waits for everybody's, compares. A barrier is no more.
class CollectiveOperation : public Operation {
 public:
  CollectiveOperation(std::shared_ptr<Group> group, const Signature& signature, Label label);

  Progress step() final;
  [[nodiscard]] bool may_go_on() const override;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::string signature() const override { return signature_.text(); }
  [[nodiscard]] std::size_t bytes() const override { return signature_.bytes(); }

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
  /// Tells the others that this rank has come to a point; points of an operation count from 1.
  void post(std::uint32_t point) { group().post_mark(mark(number(), point)); }
  /// Whether a rank has come to that point or beyond.
  [[nodiscard]] bool is_past(int rank, std::uint32_t point) const {
    return group().has_passed(rank, mark(number(), point));
  }
  /// Fills in the descriptor where the others find `bytes` from `data`; false if not in the arena.
  bool register_buffer(OpDescriptor& mine, const void* data, std::size_t bytes) const;
  [[nodiscard]] const OpDescriptor& descriptor(int rank) const;

  /// Makes the object serve another call.
  void renew(Group& group, const Signature& signature, Label label);

  Signature signature_;

 private:
  void publish();
  bool everybody_arrived();
  void compare(int rank) const;
  [[noreturn]] void complain(int rank) const;

  enum class Phase { Queued, Arriving, Running } phase_ = Phase::Queued;
  int next_ = 0;            // first rank not yet seen in the wait at hand
  std::uint32_t sync_ = 0;  // syncs entered
  bool syncing_ = false;
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
  static constexpr std::size_t kPartBytes = std::size_t{256} << 10;  // moved in one step

  ChunkedOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                   std::vector<std::size_t> bounds);

 protected:
  /// Makes the object serve another call.
  void renew(Group& group, const Signature& signature, Label label,
             std::vector<std::size_t> bounds);

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
  /// A part of the work on a chunk, some hundred KiB; true when that was the last part.
  virtual bool work(std::size_t chunk) = 0;
  virtual void copy_out(std::size_t /*chunk*/) {}

  [[nodiscard]] Piece piece(int rank, std::size_t chunk) const;
  /// The next kPartBytes of a piece of which `done` elements are done.
  [[nodiscard]] Piece part_of(const Piece& whole, std::size_t done) const;
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
  struct Source {
    std::byte* base = nullptr;  // the rank's buffer, or its staging memory
    bool staged = false;
  };
  SmallList<Source> sources_;  // by rank
  std::size_t piece_ = 0, chunks_ = 0, chunk_ = 0;
  bool staged_ = false;
  bool after_work_ = false;  // in the sync behind the chunk at hand
};

/// all_reduce (`everywhere`: results are stored into every rank's buffer) and reduce_scatter.
class ReduceOperation final : public ChunkedOperation {
 public:
  ReduceOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                  std::vector<std::size_t> bounds, Buffer in, void* out, ReduceStats* stats);
  /// Uses the object once more; it has ended and nobody else holds it.
  void renew(Group& group, const Signature& signature, Label label, std::vector<std::size_t> bounds,
             Buffer in, void* out, ReduceStats* stats);

 private:
  [[nodiscard]] ConstBuffer shared() const override { return in_; }
  [[nodiscard]] bool pieces_of_all() const override { return true; }
  void copy_in(std::size_t chunk) override;
  bool work(std::size_t chunk) override;
  void copy_out(std::size_t chunk) override;
  [[nodiscard]] bool everywhere() const { return signature_.op == Collective::AllReduce; }
  [[nodiscard]] std::byte* local(std::size_t element) const {
    return static_cast<std::byte*>(in_.data) + element * size_of();
  }

  Buffer in_;
  std::byte* out_;  // of reduce_scatter
  std::optional<BlockSums> sums_;
  std::size_t worked_ = 0;  // elements of the chunk at hand
};

/// broadcast: every rank, the root too, stores a share of the root's values into all other buffers,
/// so that all cores move bytes.
class BroadcastOperation final : public ChunkedOperation {
 public:
  BroadcastOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                     std::vector<std::size_t> bounds, Buffer io);

 private:
  [[nodiscard]] ConstBuffer shared() const override { return io_; }
  [[nodiscard]] bool pieces_of_all() const override { return true; }
  void copy_in(std::size_t chunk) override;
  bool work(std::size_t chunk) override;
  void copy_out(std::size_t chunk) override;
  [[nodiscard]] bool is_root() const { return group().rank() == signature_.root; }
  [[nodiscard]] std::byte* local(std::size_t element) const {
    return static_cast<std::byte*>(io_.data) + element * size_of();
  }

  Buffer io_;
  std::size_t worked_ = 0;  // elements of the chunk at hand
};

class GatherOperation final : public ChunkedOperation {
 public:
  GatherOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                  std::vector<std::size_t> bounds, Buffer out, ConstBuffer in);

 private:
  [[nodiscard]] ConstBuffer shared() const override { return in_; }
  [[nodiscard]] bool pieces_of_all() const override { return false; }
  void copy_in(std::size_t chunk) override;
  bool work(std::size_t chunk) override;

  Buffer out_;
  ConstBuffer in_;
  int next_ = 0;            // rank whose piece comes next
  std::size_t worked_ = 0;  // elements of it
};

/// A small all_reduce: everybody lays its values into the descriptor (24 bytes), the line beside it
/// (64) or a slot apart, and reduces all of them itself. One sync, any memory.
class OneShotOperation final : public CollectiveOperation {
 public:
  OneShotOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                   Buffer io);
  /// Uses the object once more; it has ended and nobody else holds it.
  void renew(Group& group, const Signature& signature, Label label, Buffer io);

 private:
  void prepare(OpDescriptor& mine) override;
  Progress run() override;
  /// Where that rank's values lie.
  [[nodiscard]] std::byte* place(int rank) const;

  Buffer io_;
};

}  // namespace tutti::comm
