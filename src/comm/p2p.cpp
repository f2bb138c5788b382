// Envelopes have one writer at a time: the sender while `full` is 0, the receiver while it is 1.
#include "comm/p2p.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace tutti::comm {
namespace {

std::string message_text(std::uint64_t count, DType dtype, int tag) {
  return fmt::format("{} elements {}, tag {}", count, name(dtype), tag);
}

}  // namespace

SendOperation::SendOperation(std::shared_ptr<Group> group, ConstBuffer data, int peer, int tag,
                             Label label)
    : Operation(std::move(group), Collective::Send, label), data_(data), peer_(peer), tag_(tag) {}

Progress SendOperation::step() {
  Group& g = group();
  Envelope* free = nullptr;
  int index = 0;
  for (int i = 0; i < Group::kCredits; ++i) {
    Envelope& envelope = g.block().envelope(g.rank(), peer_, i);
    if (envelope.full.load() != 0) continue;
    g.bounce(peer_, i).reset();  // the receiver has read it
    if (free == nullptr) free = &envelope, index = i;
  }
  if (free == nullptr) return Progress::Waiting;
  std::shared_ptr<std::byte>& copy = g.bounce(peer_, index);
  copy = g.engine().arena().allocate(data_.bytes(), 64);
  if (data_.count > 0) std::memcpy(copy.get(), data_.data, data_.bytes());
  const auto place = g.engine().arena().find(copy.get(), data_.bytes());
  set_number(g.next_message(peer_), ticks());
  free->tag = tag_;
  free->number = number();
  free->segment = place->segment;
  free->offset = place->offset;
  free->dtype = static_cast<std::uint8_t>(data_.dtype);
  free->count = data_.count;
  free->seal();
  free->full.store(1);
  g.wake_member(peer_);
  return Progress::Done;
}

std::vector<int> SendOperation::missing() const {
  for (int i = 0; i < Group::kCredits; ++i) {
    if (group().block().envelope(group().rank(), peer_, i).full.load() == 0) return {};
  }
  return {peer_};
}

std::string SendOperation::signature() const {
  return fmt::format("{} to rank {}", message_text(data_.count, data_.dtype, tag_),
                     group().world_rank(peer_));
}

RecvOperation::RecvOperation(std::shared_ptr<Group> group, Buffer data, int peer, int tag,
                             Label label)
    : Operation(std::move(group), Collective::Recv, label), data_(data), peer_(peer), tag_(tag) {}

Envelope* RecvOperation::oldest(int peer) const {
  Envelope* best = nullptr;
  for (int i = 0; i < Group::kCredits; ++i) {
    Envelope& envelope = group().block().envelope(peer, group().rank(), i);
    if (envelope.full.load() == 0 || envelope.tag != tag_) continue;
    if (best == nullptr || !reached(envelope.number, best->number)) best = &envelope;
  }
  return best;
}

std::vector<int> RecvOperation::candidates() const {
  if (peer_ >= 0) return {peer_};
  std::vector<int> ranks;  // not always from the lowest first: nobody shall starve
  for (int i = 1; i < group().size(); ++i) ranks.push_back((group().rank() + i) % group().size());
  return ranks;
}

Progress RecvOperation::step() {
  // Seen one by one, a newer envelope may turn up before an older one that was filled behind the
  // look: the second look finds every envelope older than what the first one found.
  const std::vector<int> from = candidates();
  const auto sender =
      std::find_if(from.begin(), from.end(), [this](int rank) { return oldest(rank) != nullptr; });
  if (sender == from.end()) return Progress::Waiting;
  source_ = *sender;
  Envelope& envelope = *oldest(source_);
  Group& g = group();
  set_number(envelope.number, ticks());
  if (!envelope.is_whole()) {
    throw core::PeerError(
        g.world_rank(source_),
        fmt::format(
            "rank {} left a message for rank {} in group {} that is not whole ({} elements, "
            "tag {}): its control memory is damaged",
            g.world_rank(source_), g.engine().rank(), g.name(), envelope.count, envelope.tag));
  }
  if (envelope.dtype != static_cast<std::uint8_t>(data_.dtype) || envelope.count != data_.count) {
    const bool known = envelope.dtype < kNumDTypes;
    throw core::PeerError(
        g.world_rank(source_),
        fmt::format(
            "rank {} receives {} in group {}{}, but rank {} sent {}. Both sides must give "
            "the same type and count.",
            g.engine().rank(), message_text(data_.count, data_.dtype, tag_), g.name(),
            label().empty() ? "" : fmt::format(" ({})", label()), g.world_rank(source_),
            known ? message_text(envelope.count, static_cast<DType>(envelope.dtype), envelope.tag)
                  : fmt::format("a message of unknown type {}", envelope.dtype)));
  }
  if (data_.count > 0) {
    std::memcpy(data_.data, g.address(source_, envelope.segment, envelope.offset, data_.bytes()),
                data_.bytes());
  }
  envelope.full.store(0);
  g.wake_member(source_);
  return Progress::Done;
}

std::vector<int> RecvOperation::missing() const {
  std::vector<int> ranks = candidates();
  for (const int rank : ranks) {
    if (oldest(rank) != nullptr) return {};
  }
  if (peer_ >= 0) return ranks;
  // From any source it still may come while one of them is there.
  std::vector<int> here;
  for (const int rank : ranks) {
    if (!group().engine().peers().left(group().world_rank(rank))) here.push_back(rank);
  }
  return here.empty() ? ranks : here;
}

std::string RecvOperation::signature() const {
  const std::string from =
      peer_ < 0 ? "any source" : fmt::format("rank {}", group().world_rank(peer_));
  return fmt::format("{} from {}", message_text(data_.count, data_.dtype, tag_), from);
}

}  // namespace tutti::comm
