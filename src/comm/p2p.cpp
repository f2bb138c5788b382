// Envelopes have one writer at a time: the sender while `full` is 0, the receiver while it is 1.
#include "comm/p2p.h"

#include <fmt/format.h>

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
  set_number(g.next_message(peer_));
  free->tag = tag_;
  free->number = number();
  free->segment = place->segment;
  free->offset = place->offset;
  free->dtype = static_cast<std::uint8_t>(data_.dtype);
  free->count = data_.count;
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

Envelope* RecvOperation::oldest() const {
  Envelope* best = nullptr;
  for (int i = 0; i < Group::kCredits; ++i) {
    Envelope& envelope = group().block().envelope(peer_, group().rank(), i);
    if (envelope.full.load() == 0 || envelope.tag != tag_) continue;
    if (best == nullptr || !reached(envelope.number, best->number)) best = &envelope;
  }
  return best;
}

Progress RecvOperation::step() {
  // Seen one by one, a newer envelope may turn up before an older one that was filled behind the
  // look: the second look finds every envelope older than what the first one found.
  if (oldest() == nullptr) return Progress::Waiting;
  Envelope& envelope = *oldest();
  Group& g = group();
  const auto dtype = static_cast<DType>(envelope.dtype);
  if (dtype != data_.dtype || envelope.count != data_.count) {
    throw core::PeerError(
        g.world_rank(peer_),
        fmt::format("rank {} receives {} in group {}{}, but rank {} sent {}. Both sides must give "
                    "the same type and count.",
                    g.engine().rank(), message_text(data_.count, data_.dtype, tag_), g.name(),
                    label().empty() ? "" : fmt::format(" ({})", label()), g.world_rank(peer_),
                    message_text(envelope.count, dtype, envelope.tag)));
  }
  if (data_.count > 0) {
    std::memcpy(data_.data, g.address(peer_, envelope.segment, envelope.offset, data_.bytes()),
                data_.bytes());
  }
  envelope.full.store(0);
  g.wake_member(peer_);
  return Progress::Done;
}

std::vector<int> RecvOperation::missing() const {
  if (oldest() != nullptr) return {};
  return {peer_};
}

std::string RecvOperation::signature() const {
  return fmt::format("{} from rank {}", message_text(data_.count, data_.dtype, tag_),
                     group().world_rank(peer_));
}

}  // namespace tutti::comm
