// The verbs of schedules over shared memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/scheduled.h"
#include "core/error.h"

namespace tutti::comm {

using schedule::Slice;
using schedule::Space;
using schedule::Verb;

std::byte* ScheduledOperation::place(int rank, Space space, std::size_t element) const {
  const auto& bases = space == Space::Data ? data_of_ : second_of_;
  std::byte* base = bases[static_cast<std::size_t>(rank)];
  TUTTI_CHECK(base != nullptr);
  return base + element * element_;
}

Envelope& ScheduledOperation::outgoing(int peer) const {
  const int slot = static_cast<int>(group().pipe(peer).sent % Group::kPipes);
  return group().block().envelope(group().rank(), peer, Group::kCredits + slot);
}

Envelope& ScheduledOperation::incoming(int peer) const {
  const int slot = static_cast<int>(group().pipe(peer).taken % Group::kPipes);
  return group().block().envelope(peer, group().rank(), Group::kCredits + slot);
}

Slice ScheduledOperation::part(const Step& step) const {
  const std::size_t begin = step.slice.begin + partial_;
  return {begin, std::min(begin + ChunkedOperation::kPartBytes / element_, step.slice.end)};
}

Progress ScheduledOperation::partly(const Step& step, const Slice& done) {
  partial_ += done.size();
  if (partial_ < step.slice.size()) return Progress::Moved;
  partial_ = 0;
  return Progress::Done;
}

Progress ScheduledOperation::execute(const Step& step) {
  if (schedule::skipped(step)) return Progress::Done;
  switch (step.verb) {
    case Verb::Publish:
      post(static_cast<std::uint32_t>(step.mark));
      return Progress::Done;
    case Verb::Await:
      for (int i = 0; i < step.peers.count; ++i) {
        const int r = step.peers.rank(i);
        if (r != group().rank() && !is_past(r, static_cast<std::uint32_t>(step.mark))) {
          return Progress::Waiting;
        }
      }
      return Progress::Done;
    case Verb::Send:
      return send(step);
    case Verb::Recv:
    case Verb::RecvAdd:
      return receive(step);
    case Verb::ReduceFrom:
    case Verb::StoreTo:
    case Verb::CopyFrom:
      return reach(step);
  }
  return Progress::Done;
}

// The message is a copy in the arena: the list may overwrite the slice at once.
Progress ScheduledOperation::send(const Step& step) {
  const int peer = step.peers.first;
  Envelope& envelope = outgoing(peer);
  if (envelope.full.load() != 0) return Progress::Waiting;
  const int slot = static_cast<int>(group().pipe(peer).sent % Group::kPipes);
  std::shared_ptr<std::byte>& copy = group().bounce(peer, Group::kCredits + slot);
  const std::size_t bytes = step.slice.size() * element_;
  copy.reset();  // the receiver has read it; the allocator hands it out again
  copy = group().engine().arena().allocate(bytes, 64);
  std::memcpy(copy.get(), place(group().rank(), step.space, step.slice.begin), bytes);
  const auto at = group().engine().arena().find(copy.get(), bytes);
  envelope.number = number();
  envelope.segment = at->segment;
  envelope.offset = at->offset;
  envelope.dtype = static_cast<std::uint8_t>(dtype_);
  envelope.count = step.slice.size();
  envelope.tag = 0;
  envelope.seal();
  envelope.full.store(1);
  ++group().pipe(peer).sent;
  group().wake_member(peer);
  return Progress::Done;
}

Progress ScheduledOperation::receive(const Step& step) {
  const int peer = step.peers.first;
  Envelope& envelope = incoming(peer);
  if (envelope.full.load() == 0) return Progress::Waiting;
  if (!envelope.is_whole() || envelope.number != number() || envelope.count != step.slice.size()) {
    throw core::PeerError(
        group().world_rank(peer),
        fmt::format("rank {} sent {} elements in #{} of group {} where rank {} expects {} in #{}: "
                    "the schedules of the two differ, or control memory is damaged",
                    group().world_rank(peer), envelope.count, envelope.number, group().name(),
                    group().engine().rank(), step.slice.size(), number()));
  }
  const std::byte* from =
      group().address(peer, envelope.segment, envelope.offset, step.slice.size() * element_);
  const Slice now = part(step);
  from += partial_ * element_;
  std::byte* to = place(group().rank(), step.space, now.begin);
  if (step.verb == Verb::RecvAdd) {
    const ReduceOp op =
        signature_.reduce.op == ReduceOp::Avg ? ReduceOp::Sum : signature_.reduce.op;
    reduce({dtype_, op, 1}, {{to, from}}, {{to}}, now.size(), nullptr);
  } else {
    std::memcpy(to, from, now.size() * element_);
  }
  const Progress progress = partly(step, now);
  if (progress == Progress::Done) {
    envelope.full.store(0);
    ++group().pipe(peer).taken;
    group().wake_member(peer);
  }
  return progress;
}

Progress ScheduledOperation::reach(const Step& step) {
  const Slice now = part(step);
  const std::size_t ahead = now.begin - step.slice.begin;
  std::byte* own = place(group().rank(), step.space, now.begin);
  if (step.verb == Verb::ReduceFrom) {
    const ReduceOp op =
        signature_.reduce.op == ReduceOp::Avg ? ReduceOp::Sum : signature_.reduce.op;
    std::vector<const void*> sources;
    for (int i = 0; i < step.peers.count; ++i) {
      sources.push_back(place(step.peers.rank(i), step.peer_space, step.peer_begin + ahead));
    }
    // A list in which one rank reads from all knows nothing of runs; others read run by run anyhow.
    const bool all = step.peers.count == group().size();
    reduce({dtype_, op, 1, all ? group().map().run : 0}, sources, {{own}}, now.size(), nullptr);
    return partly(step, now);
  }
  for (int i = 0; i < step.peers.count; ++i) {
    const int r = step.peers.rank(i);
    if (step.verb == Verb::StoreTo && r == group().rank()) continue;
    std::byte* theirs = place(r, step.peer_space, step.peer_begin + ahead);
    const std::size_t bytes = now.size() * element_;
    if (step.verb == Verb::StoreTo) {
      std::memcpy(theirs, own, bytes);
    } else if (own != theirs) {
      std::memcpy(own, theirs, bytes);
    }
  }
  return partly(step, now);
}

}  // namespace tutti::comm
