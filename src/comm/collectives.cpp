// Arrival, comparison of signatures, syncs.
#include "comm/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace tutti::comm {

std::string Signature::text() const {
  switch (op) {
    case Collective::Barrier:
      return "no data";
    case Collective::AllReduce:
    case Collective::ReduceScatter:
      return fmt::format("{}, {}, {} elements", comm::name(redop), comm::name(dtype), count);
    case Collective::Broadcast:
      return fmt::format("{}, {} elements, root {}", comm::name(dtype), count, root);
    default:
      return fmt::format("{}, {} elements", comm::name(dtype), count);
  }
}

CollectiveOperation::CollectiveOperation(std::shared_ptr<Group> group, const Signature& signature,
                                         Label label)
    : Operation(std::move(group), signature.op, label), signature_(signature) {}

void CollectiveOperation::publish() {
  set_number(group().next_number());
  OpDescriptor& mine = group().block().descriptor(group().rank(), number());
  mine.count = signature_.count;
  mine.in_offset = mine.out_offset = 0;
  mine.in_segment = mine.out_segment = 0;
  mine.op = static_cast<std::uint8_t>(signature_.op);
  mine.dtype = static_cast<std::uint8_t>(signature_.dtype);
  mine.redop = static_cast<std::uint8_t>(signature_.redop);
  mine.flags = 0;
  mine.root = signature_.root;
  mine.extra = signature_.extra;
  prepare(mine);
  group().publish(mine, number());
}

const OpDescriptor& CollectiveOperation::descriptor(int rank) const {
  return group().block().descriptor(rank, number());
}

bool CollectiveOperation::register_buffer(OpDescriptor& mine, const void* data,
                                          std::size_t bytes) const {
  const auto place = group().engine().arena().find(data, bytes);
  if (!place) return false;
  mine.in_segment = place->segment;
  mine.in_offset = place->offset;
  return true;
}

void CollectiveOperation::compare(int rank) const {
  const OpDescriptor& other = descriptor(rank);
  Signature theirs;
  theirs.op = static_cast<Collective>(other.op);
  theirs.dtype = static_cast<DType>(other.dtype);
  theirs.redop = static_cast<ReduceOp>(other.redop);
  theirs.count = other.count;
  theirs.root = other.root;
  theirs.extra = other.extra;
  if (theirs.op == signature_.op && theirs.dtype == signature_.dtype &&
      theirs.redop == signature_.redop && theirs.count == signature_.count &&
      theirs.root == signature_.root && theirs.extra == signature_.extra) {
    return;
  }
  const bool same_words = theirs.op == signature_.op && theirs.text() == signature_.text();
  throw core::PeerError(
      group().world_rank(rank),
      fmt::format(
          "rank {} runs {} #{} ({}) in group {}, but rank {} runs {} #{} ({}){}. Ranks of a "
          "group must issue the same operations in the same order.",
          group().engine().rank(), comm::name(signature_.op), number(), signature_.text(),
          group().name(), group().world_rank(rank), comm::name(theirs.op), number(), theirs.text(),
          same_words ? " with other counts or block starts" : ""));
}

bool CollectiveOperation::everybody_arrived() {
  for (; next_ < group().size(); ++next_) {
    if (next_ == group().rank()) continue;
    if (!group().has_arrived(next_, number())) return false;
    compare(next_);
  }
  next_ = 0;
  return true;
}

void CollectiveOperation::enter_sync() {
  group().post_step();
  sync_ = group().steps();
  next_ = 0;
}

bool CollectiveOperation::after_sync() {
  for (; next_ < group().size(); ++next_) {
    if (!group().has_stepped(next_, *sync_)) return false;
  }
  sync_.reset();
  return true;
}

std::vector<int> CollectiveOperation::missing() const {
  std::vector<int> ranks;
  if (phase_ == Phase::Queued) return ranks;
  for (int r = 0; r < group().size(); ++r) {
    if (phase_ == Phase::Arriving && !group().has_arrived(r, number())) ranks.push_back(r);
    if (sync_ && !group().has_stepped(r, *sync_)) ranks.push_back(r);
  }
  return ranks;
}

Progress CollectiveOperation::step() {
  switch (phase_) {
    case Phase::Queued:
      publish();
      phase_ = Phase::Arriving;
      [[fallthrough]];
    case Phase::Arriving:
      if (!everybody_arrived()) return Progress::Waiting;
      arrived();
      phase_ = Phase::Running;
      [[fallthrough]];
    case Phase::Running:
      break;
  }
  const Progress progress = run();
  if (progress == Progress::Done) group().note_done(number());
  return progress;
}

std::size_t OneShotOperation::limit(int ranks) {
  // Each rank reads ranks x bytes, so the limit falls with the ranks. collectives: measured at two.
  const std::size_t shared = ControlBlock::kOneShotBytes * 2 / static_cast<std::size_t>(ranks);
  return std::min(ControlBlock::kOneShotBytes, std::max<std::size_t>(shared, 1024));
}

OneShotOperation::OneShotOperation(std::shared_ptr<Group> group, const Signature& signature,
                                   Label label, Buffer io)
    : CollectiveOperation(std::move(group), signature, label), io_(io) {}

void OneShotOperation::prepare(OpDescriptor& mine) {
  void* place = io_.bytes() <= mine.payload.size()
                    ? mine.payload.data()
                    : group().block().one_shot(group().rank(), number());
  if (io_.count > 0) std::memcpy(place, io_.data, io_.bytes());
}

Progress OneShotOperation::run() {
  if (io_.count == 0) return Progress::Done;
  std::vector<const void*> sources(group().size());
  for (int r = 0; r < group().size(); ++r) {
    const OpDescriptor& theirs = descriptor(r);
    sources[r] = io_.bytes() <= theirs.payload.size()
                     ? static_cast<const void*>(theirs.payload.data())
                     : group().block().one_shot(r, number());
  }
  reduce({io_.dtype, signature_.redop, group().size()}, sources, {{io_.data}}, io_.count, nullptr);
  return Progress::Done;
}

}  // namespace tutti::comm
