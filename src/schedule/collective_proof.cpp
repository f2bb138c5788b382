// The walk of schedule/collective_proof.h through one run; any run will do, because entries that
// are not ordered by happens-before are told apart by the clocks, not by the order in which the run
// happens to take them.
#include "schedule/collective_proof.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::schedule {
namespace {

constexpr int kSpaces = 3;

// Whether some rank reaches into a buffer of another one.
bool any_reaches_out(const StepLists& lists) {
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    const Peers own{static_cast<int>(rank), 1};
    for (const CollectiveStep& step : lists[rank]) {
      if (one_sided(step.verb) && step.peers != own) return true;
    }
  }
  return false;
}

template <class Clock>
void join(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

}  // namespace

Proof::Proof(const CollectiveSchedule& schedule, const StepLists& lists)
    : schedule_(schedule),
      lists_(lists),
      ranks_(static_cast<int>(lists.size())),
      shares_memory_(any_reaches_out(lists)),
      sums_(ranks_) {
  for (int rank = 0; rank < ranks_; ++rank) {
    const Held owned{
        .written = {rank, 0, -1}};  // its list's start writes it: nobody else may touch it before
    buffers_.emplace_back(schedule.data_elements(rank), owned);
    buffers_.emplace_back(schedule.input_elements(rank), owned);
    buffers_.emplace_back(schedule.scratch, owned);
    RankState state;
    state.clock.assign(shares_memory_ ? lists.size() : 1, 0);
    state.clock[shares_memory_ ? static_cast<std::size_t>(rank) : 0] = 1;
    state.incoming = state.clock;
    states_.push_back(std::move(state));
  }
  fill_inputs();
}

Pieces<Held>& Proof::buffer(int rank, Space space) {
  return buffers_[static_cast<std::size_t>(rank * kSpaces + static_cast<int>(space))];
}

std::pair<Fault, std::string> Proof::run() {
  RunEvents events;
  events.entry_done = [this](EntryId id) { entry_done(id); };
  events.step_ends = [this](int rank) { step_ends(rank); };
  schedule::run(lists_, schedule_.slots, &events);
  if (fault_ == Fault::None) check_end();
  return {fault_, text_};
}

void Proof::step_ends(int rank) {
  RankState& state = states_[static_cast<std::size_t>(rank)];
  ++state.time;
  state.incoming[shares_memory_ ? static_cast<std::size_t>(rank) : 0] = state.time;
  state.clock = state.incoming;
}

void Proof::entry_done(EntryId id) {
  const CollectiveStep& step = step_of(id);
  if (fault_ != Fault::None || skipped(step)) return;
  switch (step.verb) {
    case Verb::Send:
      send(id, step);
      break;
    case Verb::Recv:
    case Verb::RecvAdd:
      receive(id, step);
      break;
    case Verb::Publish: {
      RankState& state = states_[static_cast<std::size_t>(id.rank)];
      state.marks.push_back(state.clock);
      break;
    }
    case Verb::Await:
      await(id.rank, step);
      break;
    case Verb::ReduceFrom:
    case Verb::StoreTo:
    case Verb::CopyFrom:
      reach(id, step);
      break;
  }
}

void Proof::send(EntryId id, const CollectiveStep& step) {
  const auto pair = static_cast<std::uint64_t>(id.rank) * lists_.size() +
                    static_cast<std::uint64_t>(step.peers.first);
  queues_[pair].sent.push_back(
      {read(id, {id.rank, step.space, step.slice.begin}, step.slice.size()),
       shares_memory_ ? states_[static_cast<std::size_t>(id.rank)].clock : Clock{}, step.step});
}

void Proof::receive(EntryId id, const CollectiveStep& step) {
  const auto pair = static_cast<std::uint64_t>(step.peers.first) * lists_.size() +
                    static_cast<std::uint64_t>(id.rank);
  Queue& queue = queues_[pair];
  Message message = std::move(queue.sent[queue.received++]);
  std::size_t size = 0;
  for (const Run& run : message.content) size += run.size;
  if (size != step.slice.size()) {
    fail(Fault::Mismatch,
         fmt::format("{} takes {} elements, but step {} of rank {} sends {}", where(id),
                     step.slice.size(), message.step, step.peers.first, size));
    return;
  }
  join(states_[static_cast<std::size_t>(id.rank)].incoming, message.clock);
  const Place place{id.rank, step.space, step.slice.begin};
  if (step.verb == Verb::RecvAdd)
    message.content = added(id, read(id, place, size), message.content);
  write(id, place, message.content);
}

void Proof::await(int rank, const CollectiveStep& step) {
  if (!shares_memory_) return;
  Clock& incoming = states_[static_cast<std::size_t>(rank)].incoming;
  const auto& own_marks = states_[static_cast<std::size_t>(rank)].marks;
  if (own_marks.size() >= static_cast<std::size_t>(step.mark)) {
    join(incoming, clock_of(step.peers, step.mark));
    return;
  }
  for (int i = 0; i < step.peers.count; ++i) {  // awaited before the own mark is there
    const int peer = step.peers.rank(i);
    if (peer != rank) join(incoming, clock_of({peer, 1}, step.mark));
  }
}

const Proof::Clock& Proof::clock_of(const Peers& peers, int mark) {
  Clock& clock = mark_clocks_[{peers.first, peers.count, peers.stride, mark}];
  if (!clock.empty()) return clock;
  clock.assign(lists_.size(), 0);
  for (int i = 0; i < peers.count; ++i) {
    const auto& marks = states_[static_cast<std::size_t>(peers.rank(i))].marks;
    // Only what this mark covers: a later one may have been published by chance.
    join(clock, marks[static_cast<std::size_t>(mark - 1)]);
  }
  return clock;
}

void Proof::reach(EntryId id, const CollectiveStep& step) {
  const std::size_t size = step.slice.size();
  const Place own{id.rank, step.space, step.slice.begin};
  if (step.verb == Verb::StoreTo) {
    const std::vector<Run> content = read(id, own, size);
    for (int i = 0; i < step.peers.count; ++i) {
      const int peer = step.peers.rank(i);
      if (peer != id.rank) write(id, {peer, step.peer_space, step.peer_begin}, content);
    }
    return;
  }
  std::vector<Run> content = read(id, {step.peers.first, step.peer_space, step.peer_begin}, size);
  for (int i = 1; i < step.peers.count; ++i) {
    content =
        added(id, content, read(id, {step.peers.rank(i), step.peer_space, step.peer_begin}, size));
  }
  write(id, own, content);
}

bool Proof::before(const Access& access, int rank) const {
  if (access.rank < 0) return true;
  const Clock& clock = states_[static_cast<std::size_t>(rank)].clock;
  if (shares_memory_) return clock[static_cast<std::size_t>(access.rank)] > access.time;
  return clock[0] > access.time;  // only the own rank touches its buffers
}

std::vector<Proof::Run> Proof::read(EntryId id, Place place, std::size_t size) {
  std::vector<Run> content;
  const int time = states_[static_cast<std::size_t>(id.rank)].time;
  buffer(place.rank, place.space)
      .visit({place.begin, place.begin + size}, [&](Slice slice, Held& held) {
        if (!before(held.written, id.rank)) race(id, held.written, place, slice);
        if (held.sum == Sums::kNothing) {
          fail(Fault::Undefined,
               fmt::format("{} reads elements [{}, {}) of rank {}'s {}, which nobody has written",
                           where(id), slice.begin, slice.end, place.rank, name(place.space)));
        }
        const std::ptrdiff_t shift = held.shift + static_cast<std::ptrdiff_t>(place.begin);
        if (!content.empty() && content.back().sum == held.sum && content.back().shift == shift) {
          content.back().size += slice.size();
        } else {
          content.push_back({slice.size(), held.sum, shift});
        }
        const Access access{id.rank, time, id.entry};
        if (!held.read.empty() && held.read.back().rank == id.rank &&
            before(held.read.back(), id.rank)) {
          held.read.back() = access;  // who comes after the new one comes after the old one too
        } else {
          held.read.push_back(access);
        }
      });
  return content;
}

void Proof::write(EntryId id, Place place, const std::vector<Run>& content) {
  const int time = states_[static_cast<std::size_t>(id.rank)].time;
  std::size_t begin = place.begin;
  for (const Run& run : content) {
    buffer(place.rank, place.space).visit({begin, begin + run.size}, [&](Slice slice, Held& held) {
      if (!before(held.written, id.rank)) race(id, held.written, place, slice);
      for (const Access& access : held.read) {
        const bool own = access.rank == id.rank && access.entry == id.entry;
        if (!own && !before(access, id.rank)) race(id, access, place, slice);
      }
      held = {run.sum,
              run.shift - static_cast<std::ptrdiff_t>(place.begin),
              {id.rank, time, id.entry},
              {}};
    });
    begin += run.size;
  }
}

std::vector<Proof::Run> Proof::added(EntryId id, const std::vector<Run>& a,
                                     const std::vector<Run>& b) {
  std::vector<Run> result;
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t used_a = 0;
  std::size_t used_b = 0;
  while (i < a.size() && j < b.size()) {
    const std::size_t size = std::min(a[i].size - used_a, b[j].size - used_b);
    if (a[i].shift != b[j].shift) {
      fail(Fault::Wrong, fmt::format("{} adds values of different elements (numbers differ by {})",
                                     where(id), a[i].shift - b[j].shift));
      return a;
    }
    const bool defined = a[i].sum != Sums::kNothing && b[j].sum != Sums::kNothing;
    result.push_back({size, defined ? sums_.add(a[i].sum, b[j].sum) : Sums::kNothing, a[i].shift});
    if ((used_a += size) == a[i].size) ++i, used_a = 0;
    if ((used_b += size) == b[j].size) ++j, used_b = 0;
  }
  return result;
}

void Proof::race(EntryId id, const Access& other, const Place& place, Slice slice) {
  const std::string second = other.entry < 0 ? fmt::format("the start of rank {}", other.rank)
                                             : where({other.rank, other.entry});
  fail(Fault::Race,
       fmt::format("{} and {} both use elements [{}, {}) of rank {}'s {}, and nothing orders them",
                   where(id), second, slice.begin, slice.end, place.rank, name(place.space)));
}

void Proof::fail(Fault fault, std::string text) {
  if (fault_ != Fault::None) return;
  fault_ = fault;
  text_ = std::move(text);
}

std::string Proof::where(EntryId id) const {
  const CollectiveStep& step = step_of(id);
  return fmt::format("rank {}, step {} ({})", id.rank, step.step, describe(step));
}

const CollectiveStep& Proof::step_of(EntryId id) const {
  return lists_[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.entry)];
}

}  // namespace tutti::schedule
