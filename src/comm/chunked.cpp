// Collectives that move large buffers: directly where all are registered, else through staging.
#include <algorithm>
#include <cstring>

#include "comm/collectives.h"

namespace tutti::comm {

ChunkedOperation::ChunkedOperation(std::shared_ptr<Group> group, const Signature& signature,
                                   Label label, std::vector<std::size_t> bounds)
    : CollectiveOperation(std::move(group), signature, label),
      bounds_(std::move(bounds)),
      element_(element_bytes(signature.dtype)) {}

void ChunkedOperation::renew(Group& group, const Signature& signature, Label label,
                             std::vector<std::size_t> bounds) {
  CollectiveOperation::renew(group, signature, label);
  bounds_ = std::move(bounds);
  element_ = element_bytes(signature.dtype);
  piece_ = chunks_ = chunk_ = 0;
  staged_ = after_work_ = false;
}

std::size_t ChunkedOperation::staged_piece() const {
  // Whole cache lines per piece, so that no two ranks write one line of a half.
  const std::size_t pieces = pieces_of_all() ? static_cast<std::size_t>(group().size()) : 1;
  return std::max<std::size_t>(Group::kChunkBytes / pieces / 64 * 64, 64) / element_;
}

void ChunkedOperation::prepare(OpDescriptor& mine) {
  const ConstBuffer buffer = shared();
  const bool may_be_direct = signature_.algorithm != schedule::Algorithm::Staged;
  if (buffer.count == 0 || (may_be_direct && register_buffer(mine, buffer.data, buffer.bytes()))) {
    mine.flags |= kRegistered;
    return;
  }
  staged_ = true;
  register_buffer(mine, group().staging(), 2 * Group::kChunkBytes);
  // That this rank is staged decides for all, so the first chunk can travel with the arrival.
  piece_ = staged_piece();
  copy_in(0);
}

void ChunkedOperation::arrived() {
  group().fetch_mark();
  const int ranks = group().size();
  bool any_staged = false;
  sources_.resize(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    sources_[r] = {nullptr, (descriptor(r).flags & kRegistered) == 0};
    any_staged = any_staged || sources_[r].staged;
  }
  std::size_t largest = 0;
  for (int r = 0; r < ranks; ++r) largest = std::max(largest, bounds_[r + 1] - bounds_[r]);
  piece_ = any_staged ? staged_piece() : std::max<std::size_t>(largest, 1);
  chunks_ = (largest + piece_ - 1) / piece_;

  for (int r = 0; r < ranks; ++r) {
    const OpDescriptor& theirs = descriptor(r);
    // What a rank shares: its whole buffer, or for a gather its share; or two staging halves.
    const std::size_t elements = pieces_of_all() ? bounds_.back() : bounds_[r + 1] - bounds_[r];
    const std::size_t bytes = sources_[r].staged ? 2 * Group::kChunkBytes : elements * element_;
    if (r == group().rank()) {
      sources_[r].base = staged_
                             ? group().staging()
                             : const_cast<std::byte*>(static_cast<const std::byte*>(shared().data));
    } else if (bytes > 0) {
      sources_[r].base = group().address(r, theirs.in_segment, theirs.in_offset, bytes);
    }
  }
}

ChunkedOperation::Piece ChunkedOperation::piece(int rank, std::size_t chunk) const {
  Piece piece;
  piece.begin = std::min(bounds_[rank] + chunk * piece_, bounds_[rank + 1]);
  piece.count = std::min(piece_, bounds_[rank + 1] - piece.begin);
  piece.staged_at = pieces_of_all() ? static_cast<std::size_t>(rank) * piece_ : 0;
  return piece;
}

ChunkedOperation::Piece ChunkedOperation::part_of(const Piece& whole, std::size_t done) const {
  Piece part = whole;
  part.begin += done;
  part.count = std::min(whole.count - done, kPartBytes / element_);
  return part;
}

std::byte* ChunkedOperation::staging_half(std::size_t chunk) const {
  return group().staging() + (chunk & 1) * Group::kChunkBytes;
}

std::byte* ChunkedOperation::source(int rank, const Piece& piece, std::size_t chunk,
                                    std::size_t first) const {
  const Source& from = sources_[rank];
  if (from.staged) {
    return from.base + (chunk & 1) * Group::kChunkBytes + piece.staged_at * element_;
  }
  return from.base + (piece.begin - first) * element_;
}

Progress ChunkedOperation::run() {
  if (after_work_) {
    if (!after_sync()) return Progress::Waiting;
    after_work_ = false;
    if (staged_) copy_out(chunk_);
    ++chunk_;
  }
  if (chunk_ == chunks_) return Progress::Done;
  if (!work(chunk_)) return Progress::Moved;
  if (staged_ && chunk_ + 1 < chunks_) copy_in(chunk_ + 1);
  enter_sync();
  after_work_ = true;
  return Progress::Moved;
}

ReduceOperation::ReduceOperation(std::shared_ptr<Group> group, const Signature& signature,
                                 Label label, std::vector<std::size_t> bounds, Buffer in, void* out,
                                 ReduceStats* stats)
    : ChunkedOperation(std::move(group), signature, label, std::move(bounds)),
      in_(in),
      out_(static_cast<std::byte*>(out)) {
  const int me = this->group().rank();
  if (stats != nullptr) sums_.emplace(*stats, bound(me), bound(me + 1), in.count);
}

void ReduceOperation::renew(Group& group, const Signature& signature, Label label,
                            std::vector<std::size_t> bounds, Buffer in, void* out,
                            ReduceStats* stats) {
  ChunkedOperation::renew(group, signature, label, std::move(bounds));
  in_ = in;
  out_ = static_cast<std::byte*>(out);
  worked_ = 0;
  sums_.reset();
  const int me = group.rank();
  if (stats != nullptr) sums_.emplace(*stats, bound(me), bound(me + 1), in.count);
}

void ReduceOperation::copy_in(std::size_t chunk) {
  std::byte* half = staging_half(chunk);
  for (int r = 0; r < group().size(); ++r) {
    if (r == group().rank()) continue;  // nobody else reads this rank's own share
    const Piece p = piece(r, chunk);
    if (p.count == 0) continue;
    std::memcpy(half + p.staged_at * size_of(), local(p.begin), p.count * size_of());
  }
}

bool ReduceOperation::work(std::size_t chunk) {
  const int me = group().rank();
  const Piece whole = piece(me, chunk);
  const Piece p = part_of(whole, worked_);
  if (p.count == 0) return true;
  // What a staging half holds begins with the whole piece.
  const std::size_t ahead = (p.begin - whole.begin) * size_of();
  const auto ranks = static_cast<std::size_t>(group().size());
  SmallList<const void*> sources(ranks);
  SmallList<void*> destinations(ranks);
  for (int r = 0; r < group().size(); ++r) {
    std::byte* at = r == me ? local(p.begin) : source(r, whole, chunk, 0) + ahead;
    sources[static_cast<std::size_t>(r)] = at;
    destinations[static_cast<std::size_t>(r)] = at;
  }
  if (!everywhere()) destinations[0] = out_ + (p.begin - bound(me)) * size_of();
  reduce({in_.dtype, signature_.reduce, group().size(), group().map().run}, sources.all(),
         destinations.first(everywhere() ? ranks : 1), p.count, sums_ ? &*sums_ : nullptr);
  worked_ += p.count;
  if (worked_ < whole.count) return false;
  worked_ = 0;
  return true;
}

void ReduceOperation::copy_out(std::size_t chunk) {
  if (!everywhere()) return;
  const std::byte* half = staging_half(chunk);
  for (int r = 0; r < group().size(); ++r) {
    if (r == group().rank()) continue;
    const Piece p = piece(r, chunk);
    if (p.count == 0) continue;
    std::memcpy(local(p.begin), half + p.staged_at * size_of(), p.count * size_of());
  }
}

BroadcastOperation::BroadcastOperation(std::shared_ptr<Group> group, const Signature& signature,
                                       Label label, std::vector<std::size_t> bounds, Buffer io)
    : ChunkedOperation(std::move(group), signature, label, std::move(bounds)), io_(io) {}

void BroadcastOperation::copy_in(std::size_t chunk) {
  if (!is_root()) return;  // the others' halves are filled by whoever has the share
  std::byte* half = staging_half(chunk);
  for (int r = 0; r < group().size(); ++r) {
    const Piece p = piece(r, chunk);
    if (r == group().rank() || p.count == 0) continue;  // its own share it stores itself
    std::memcpy(half + p.staged_at * size_of(), local(p.begin), p.count * size_of());
  }
}

bool BroadcastOperation::work(std::size_t chunk) {
  const int me = group().rank(), root = signature_.root;
  const Piece whole = piece(me, chunk);
  const Piece p = part_of(whole, worked_);
  if (p.count == 0) return true;
  const std::size_t ahead = (p.begin - whole.begin) * size_of();
  const auto at = [&](int r) {
    return r == me ? local(p.begin) : source(r, whole, chunk, 0) + ahead;
  };
  const std::byte* from = at(root);
  for (int r = 0; r < group().size(); ++r) {
    if (r != root) std::memcpy(at(r), from, p.count * size_of());
  }
  worked_ += p.count;
  if (worked_ < whole.count) return false;
  worked_ = 0;
  return true;
}

void BroadcastOperation::copy_out(std::size_t chunk) {
  if (is_root()) return;
  const std::byte* half = staging_half(chunk);
  for (int r = 0; r < group().size(); ++r) {
    const Piece p = piece(r, chunk);
    if (r == group().rank() || p.count == 0) continue;
    std::memcpy(local(p.begin), half + p.staged_at * size_of(), p.count * size_of());
  }
}

GatherOperation::GatherOperation(std::shared_ptr<Group> group, const Signature& signature,
                                 Label label, std::vector<std::size_t> bounds, Buffer out,
                                 ConstBuffer in)
    : ChunkedOperation(std::move(group), signature, label, std::move(bounds)), out_(out), in_(in) {}

void GatherOperation::copy_in(std::size_t chunk) {
  const int me = group().rank();
  const Piece p = piece(me, chunk);
  if (p.count == 0) return;
  const auto* from = static_cast<const std::byte*>(in_.data) + (p.begin - bound(me)) * size_of();
  std::memcpy(staging_half(chunk), from, p.count * size_of());
}

bool GatherOperation::work(std::size_t chunk) {
  // Not everybody reads from rank 0 first.
  const int r = (group().rank() + next_) % group().size();
  const Piece whole = piece(r, chunk);
  const Piece p = part_of(whole, worked_);
  if (p.count > 0) {
    const std::byte* from =
        r == group().rank()
            ? static_cast<const std::byte*>(in_.data) + (p.begin - bound(r)) * size_of()
            : source(r, whole, chunk, bound(r)) + (p.begin - whole.begin) * size_of();
    std::byte* to = static_cast<std::byte*>(out_.data) + p.begin * size_of();
    if (from != to) std::memcpy(to, from, p.count * size_of());
    worked_ += p.count;
    if (worked_ < whole.count) return false;
  }
  worked_ = 0;
  if (++next_ < group().size()) return false;
  next_ = 0;
  return true;
}

}  // namespace tutti::comm
