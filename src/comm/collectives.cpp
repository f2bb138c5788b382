// Arrival, comparison of signatures, syncs.
#include "comm/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/small_list.h"
#include "core/error.h"

namespace tutti::comm {

namespace {

// Of all that a reader acts on: a stray store into control memory is then an error, not a wrong
// address or number. It lies in the first word of the payload, or, where that is data, in the place
// of the address. What lies beside the descriptor or in a slot is data like that in the callers'
// buffers, and as unprotected.
std::uint64_t digest(const OpDescriptor& d, std::uint32_t number) {
  const auto pack = [](std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t e) {
    return a | b << 16 | c << 32 | e << 48;
  };
  // The first word is the check sum's own place, or data.
  OpDescriptor::Words words = d.words();
  if ((d.flags & kInline) == 0) words.sum = d.in_offset;
  // Odd factors, one per word: none of the products waits for another.
  std::uint64_t sum = (number + 1) * 0x9e3779b97f4a7c15U;
  sum += d.count * 0xbf58476d1ce4e5b9U;
  sum += d.out_offset * 0x8cb92ba72f3d8dd7U;
  sum += words.sum * 0x94d049bb133111ebU;
  sum += words.counts * 0xd6e8feb86659fd93U;
  sum += words.extra * 0x2545f4914f6cdd1dU;
  sum += pack(d.in_segment, d.out_segment, d.root, d.zero) * 0xc2b2ae3d27d4eb4fU;
  sum += pack(d.op, d.dtype, d.redop, d.flags) * 0x165667b19e3779f9U;
  return sum ^ sum >> 32;
}

void seal(OpDescriptor& d, std::uint32_t number) {
  const std::uint64_t sum = digest(d, number);
  if ((d.flags & kInline) != 0) {
    d.in_offset = sum;
  } else {
    std::memcpy(d.payload.data(), &sum, sizeof(sum));
  }
}

bool is_whole(const OpDescriptor& d, std::uint32_t number) {
  const bool is_inline = (d.flags & kInline) != 0;
  return (is_inline ? d.in_offset : d.words().sum) == digest(d, number);
}

std::uint64_t extra_of(const OpDescriptor& d) {
  return (d.flags & kInline) != 0 ? d.out_offset : d.words().extra;
}

// Whether such an operation's values travel in the descriptor.
bool is_inline(const Signature& signature) {
  const bool one_shot = signature.algorithm == schedule::Algorithm::Inline ||
                        signature.algorithm == schedule::Algorithm::OneShot;
  return signature.op == Collective::AllReduce && one_shot &&
         signature.bytes() <= sizeof(OpDescriptor::payload);
}

std::string op_text(const Reduce& reduce) {
  return reduce.factor == 1 ? std::string(name(reduce.op))
                            : fmt::format("{} scaled by {}", name(reduce.op), reduce.factor);
}

}  // namespace

std::string Signature::text() const {
  switch (op) {
    case Collective::Barrier:
      return "no data";
    case Collective::AllReduce:
    case Collective::ReduceScatter:
      return fmt::format("{}, {}, {} elements", op_text(reduce), comm::name(dtype), count);
    case Collective::Reduce:
      return fmt::format("{}, {}, {} elements, root {}", op_text(reduce), comm::name(dtype), count,
                         root);
    case Collective::Broadcast:
    case Collective::Scatter:
    case Collective::Gather:
      return fmt::format("{}, {} elements, root {}", comm::name(dtype), count, root);
    case Collective::AllToAll:
      return fmt::format("{}", comm::name(dtype));
    default:
      return fmt::format("{}, {} elements", comm::name(dtype), count);
  }
}

CollectiveOperation::CollectiveOperation(std::shared_ptr<Group> group, const Signature& signature,
                                         Label label)
    : Operation(std::move(group), signature.op, label), signature_(signature) {}

void CollectiveOperation::publish() {
  const std::uint64_t now = ticks();
  set_number(group().next_number(), now);
  OpDescriptor& mine = group().block().descriptor(group().rank(), number());
  mine.count = signature_.count;
  mine.in_offset = mine.out_offset = 0;
  mine.in_segment = mine.out_segment = mine.zero = 0;
  mine.op = static_cast<std::uint8_t>(signature_.op);
  mine.dtype = static_cast<std::uint8_t>(signature_.dtype);
  mine.redop = static_cast<std::uint8_t>(signature_.reduce.op);
  mine.flags = static_cast<std::uint8_t>(static_cast<int>(signature_.algorithm) << kAlgorithmShift);
  mine.root = signature_.root;
  if (is_inline(signature_)) {
    mine.flags |= kInline;
    mine.out_offset = signature_.extra;
  } else {
    mine.set_words({0, 0, signature_.extra});
  }
  prepare(mine);
  seal(mine, number());
  group().publish(mine, number(), now);
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
  const Signature& mine = signature_;
  const auto algorithm = static_cast<schedule::Algorithm>(other.flags >> kAlgorithmShift);
  if (other.op == static_cast<std::uint8_t>(mine.op) &&
      other.dtype == static_cast<std::uint8_t>(mine.dtype) &&
      other.redop == static_cast<std::uint8_t>(mine.reduce.op) && other.count == mine.count &&
      other.root == mine.root && extra_of(other) == mine.extra && algorithm == mine.algorithm &&
      ((other.flags & kInline) != 0) == is_inline(mine) && is_whole(other, number())) {
    return;
  }
  complain(rank);
}

// Nothing of the other descriptor is known to be in order here, only that it differs.
void CollectiveOperation::complain(int rank) const {
  const OpDescriptor& other = descriptor(rank);
  const bool words =
      other.op <= static_cast<std::uint8_t>(Collective::AllToAll) && other.dtype < kNumDTypes &&
      other.redop <= static_cast<std::uint8_t>(ReduceOp::BitXor) &&
      other.flags >> kAlgorithmShift < static_cast<int>(schedule::all_algorithms().size());
  if (!words || !is_whole(other, number())) {
    throw core::PeerError(
        group().world_rank(rank),
        fmt::format("rank {} left a descriptor for #{} of group {} that is not whole (op {}, type "
                    "{}, {}): its control memory is damaged",
                    group().world_rank(rank), number(), group().name(), other.op, other.dtype,
                    other.redop));
  }
  Signature theirs;
  theirs.op = static_cast<Collective>(other.op);
  theirs.dtype = static_cast<DType>(other.dtype);
  theirs.reduce.op = static_cast<ReduceOp>(other.redop);
  theirs.reduce.factor = theirs.reduce.op == signature_.reduce.op ? signature_.reduce.factor : 1;
  theirs.count = other.count;
  theirs.root = other.root;
  theirs.algorithm = static_cast<schedule::Algorithm>(other.flags >> kAlgorithmShift);
  std::string difference;
  if (theirs.op == signature_.op && theirs.text() == signature_.text()) {
    difference =
        theirs.algorithm == signature_.algorithm
            ? " with other counts, block starts or factor"
            : fmt::format(" by the algorithm {} instead of {}", schedule::name(theirs.algorithm),
                          schedule::name(signature_.algorithm));
  }
  throw core::PeerError(
      group().world_rank(rank),
      fmt::format(
          "rank {} runs {} #{} ({}) in group {}{}, but rank {} runs {} #{} ({}){}. Ranks of a "
          "group must issue the same operations in the same order.",
          group().engine().rank(), comm::name(signature_.op), number(), signature_.text(),
          group().name(), label().empty() ? "" : fmt::format(" [{}]", label()),
          group().world_rank(rank), comm::name(theirs.op), number(), theirs.text(), difference));
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
  post(++sync_);
  syncing_ = true;
  next_ = 0;
}

bool CollectiveOperation::after_sync() {
  for (; next_ < group().size(); ++next_) {
    if (next_ != group().rank() && !is_past(next_, sync_)) return false;
  }
  syncing_ = false;
  return true;
}

bool CollectiveOperation::may_go_on() const {
  if (phase_ == Phase::Queued) return true;
  if (phase_ == Phase::Running) {
    return !syncing_ || group().seems_past(next_, mark(number(), sync_));
  }
  // The line beside comes with the descriptor's, not after it.
  __builtin_prefetch(&group().block().beside(next_, number()));
  return group().has_arrived(next_, number());
}

std::vector<int> CollectiveOperation::missing() const {
  std::vector<int> ranks;
  if (phase_ == Phase::Queued) return ranks;
  for (int r = 0; r < group().size(); ++r) {
    if (r == group().rank()) continue;
    if (phase_ == Phase::Arriving && !group().has_arrived(r, number())) ranks.push_back(r);
    if (syncing_ && !is_past(r, sync_)) ranks.push_back(r);
  }
  return ranks;
}

void CollectiveOperation::renew(Group& group, const Signature& signature, Label label) {
  Operation::renew(group, label);
  signature_ = signature;
  phase_ = Phase::Queued;
  next_ = 0;
  sync_ = 0;
  syncing_ = false;
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
  return run();
}

OneShotOperation::OneShotOperation(std::shared_ptr<Group> group, const Signature& signature,
                                   Label label, Buffer io)
    : CollectiveOperation(std::move(group), signature, label), io_(io) {}

void OneShotOperation::renew(Group& group, const Signature& signature, Label label, Buffer io) {
  CollectiveOperation::renew(group, signature, label);
  io_ = io;
}

std::byte* OneShotOperation::place(int rank) const {
  const ControlBlock& block = group().block();
  if (is_inline(signature_)) return block.descriptor(rank, number()).payload.data();
  std::array<std::byte, 64>& beside = block.beside(rank, number());
  return io_.bytes() <= beside.size() ? beside.data() : block.one_shot(rank, number());
}

void OneShotOperation::prepare(OpDescriptor& /*mine*/) {
  if (io_.count > 0) std::memcpy(place(group().rank()), io_.data, io_.bytes());
}

Progress OneShotOperation::run() {
  if (io_.count == 0) return Progress::Done;
  const int ranks = group().size();
  SmallList<const void*> sources(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    sources[static_cast<std::size_t>(r)] = r == group().rank() ? io_.data : place(r);
  }
  reduce({io_.dtype, signature_.reduce, ranks, group().map().run}, sources.all(), {{io_.data}},
         io_.count, nullptr);
  return Progress::Done;
}

}  // namespace tutti::comm
