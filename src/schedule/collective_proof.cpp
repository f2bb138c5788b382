// The walk of schedule/collective_proof.h through one run; any run will do, because entries that
// are not ordered by happens-before are told apart by the clocks, not by the order in which the run
// happens to take them.
#include "schedule/collective_proof.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::schedule {
namespace {

constexpr int kSpaces = 3;

std::string_view place_name(Space space) {
  static constexpr std::string_view kNames[] = {"Data", "Input", "Scratch"};
  return kNames[static_cast<int>(space)];
}

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

// "rank 3 is missing", "rank 2 is in it 2 times": what a sum of all ranks lacks.
std::string difference(const std::vector<int>& got, const std::vector<int>& wanted) {
  std::vector<std::string> parts;
  for (std::size_t rank = 0; rank < got.size() && parts.size() < 4; ++rank) {
    if (got[rank] == wanted[rank]) continue;
    parts.push_back(got[rank] == 0 ? fmt::format("rank {} is missing", rank)
                                   : fmt::format("rank {} is in it {} times instead of {}", rank,
                                                 got[rank], wanted[rank]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
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

void Proof::fill_inputs() {
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool is_root = rank == schedule_.request.root;
    const Slice all{0, schedule_.data_elements(rank)};
    const auto fill = [&](Space space, Slice slice) {
      buffer(rank, space).visit(slice, [&](Slice, Held& held) { held.sum = sums_.own(rank); });
    };
    switch (schedule_.request.operation) {
      case Operation::AllReduce:
      case Operation::ReduceScatter:
      case Operation::Reduce:
        fill(Space::Data, all);
        break;
      case Operation::AllGather:
      case Operation::Gather:
        fill(Space::Data, schedule_.shares[static_cast<std::size_t>(rank)]);
        break;
      case Operation::Broadcast:
      case Operation::Scatter:
        if (is_root) fill(Space::Data, all);
        break;
      case Operation::AllToAll:
        fill(Space::Input, {0, schedule_.input_elements(rank)});
        break;
    }
  }
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
                           where(id), slice.begin, slice.end, place.rank, place_name(place.space)));
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

void Proof::check_end() {
  for (int rank = 0; rank < ranks_; ++rank) {
    check_left(rank);
    if (fault_ != Fault::None) return;
  }
  const bool reduces = schedule_.request.operation == Operation::AllReduce ||
                       schedule_.request.operation == Operation::ReduceScatter ||
                       schedule_.request.operation == Operation::Reduce;
  std::vector<SummedSlice> sums;
  if (reduces) sums = promised_sums(schedule_, sums_);
  for (int rank = 0; rank < ranks_ && fault_ == Fault::None; ++rank) {
    if (schedule_.request.operation == Operation::AllToAll) {
      for (int from = 0; from < ranks_; ++from) {
        const Slice slice = schedule_.parts->output(from, rank);
        const auto shift = static_cast<std::ptrdiff_t>(schedule_.parts->input(from, rank).begin) -
                           static_cast<std::ptrdiff_t>(slice.begin);
        check_result(rank, {{slice, sums_.own(from)}}, shift);
      }
    } else if (!reduces) {
      check_result(rank, result_of(rank), 0);
    } else if (schedule_.request.operation != Operation::Reduce || rank == schedule_.request.root) {
      const bool scattered = schedule_.request.operation == Operation::ReduceScatter;
      const Slice mine = scattered ? schedule_.shares[static_cast<std::size_t>(rank)]
                                   : Slice{0, schedule_.data_elements(rank)};
      std::vector<SummedSlice> wanted;
      for (const SummedSlice& part : sums) {
        const Slice both{std::max(part.slice.begin, mine.begin),
                         std::min(part.slice.end, mine.end)};
        if (both.begin < both.end) wanted.push_back({both, part.sum});
      }
      check_result(rank, wanted, 0);
    }
  }
}

// What operations that only move values promise to `rank`.
std::vector<SummedSlice> Proof::result_of(int rank) {
  const CollectiveRequest& request = schedule_.request;
  const Slice all{0, schedule_.data_elements(rank)};
  std::vector<SummedSlice> every_share;
  for (int other = 0; other < ranks_ && !schedule_.shares.empty(); ++other) {
    every_share.push_back({schedule_.shares[static_cast<std::size_t>(other)], sums_.own(other)});
  }
  switch (request.operation) {
    case Operation::AllGather:
      return every_share;
    case Operation::Gather:
      return rank == request.root ? every_share : std::vector<SummedSlice>{};
    case Operation::Broadcast:
      return {{all, sums_.own(request.root)}};
    case Operation::Scatter:
      return {{schedule_.shares[static_cast<std::size_t>(rank)], sums_.own(request.root)}};
    default:
      return {};
  }
}

// The caller gets Data and Input back when its list ends: all accesses of others must be over by
// then.
void Proof::check_left(int rank) {
  for (const Space space : {Space::Data, Space::Input}) {
    Pieces<Held>& pieces = buffer(rank, space);
    pieces.visit({0, pieces.size()}, [&](Slice slice, Held& held) {
      std::vector<Access> accesses = held.read;
      accesses.push_back(held.written);
      for (const Access& access : accesses) {
        if (before(access, rank)) continue;
        fail(Fault::Race,
             fmt::format("rank {} may end while {} still uses elements [{}, {}) of its {}", rank,
                         where({access.rank, access.entry}), slice.begin, slice.end,
                         place_name(space)));
      }
    });
  }
}

void Proof::check_result(int rank, const std::vector<SummedSlice>& wanted, std::ptrdiff_t shift) {
  for (const SummedSlice& part : wanted) {
    buffer(rank, Space::Data).visit(part.slice, [&](Slice slice, Held& held) {
      if (held.sum == part.sum && held.shift == shift) return;
      const std::string element = fmt::format("element {} of rank {} ends", slice.begin, rank);
      if (held.sum == Sums::kNothing) {
        fail(Fault::Wrong, element + " without a value");
      } else if (held.shift != shift) {
        fail(Fault::Wrong, fmt::format("{} with rank values of element {} instead of {}", element,
                                       static_cast<std::ptrdiff_t>(slice.begin) + held.shift,
                                       static_cast<std::ptrdiff_t>(slice.begin) + shift));
      } else if (sums_.counts(held.sum) != sums_.counts(part.sum)) {
        fail(Fault::Wrong, fmt::format("{} with {}: {}", element, sums_.text(held.sum),
                                       difference(sums_.counts(held.sum), sums_.counts(part.sum))));
      } else {
        fail(Fault::Order, fmt::format("{} with {}, promised is {}", element, sums_.text(held.sum),
                                       sums_.text(part.sum)));
      }
    });
  }
}

void Proof::race(EntryId id, const Access& other, const Place& place, Slice slice) {
  const std::string second = other.entry < 0 ? fmt::format("the start of rank {}", other.rank)
                                             : where({other.rank, other.entry});
  fail(Fault::Race,
       fmt::format("{} and {} both use elements [{}, {}) of rank {}'s {}, and nothing orders them",
                   where(id), second, slice.begin, slice.end, place.rank, place_name(place.space)));
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
