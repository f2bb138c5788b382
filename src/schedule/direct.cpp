// Shared-memory collectives of schedule/direct.h.
#include "schedule/direct.h"

#include <algorithm>

namespace tutti::schedule {
namespace {

Slice own_share(const Team& team, const Shares& shares) {
  return shares[static_cast<std::size_t>(team.index)];
}

Peers only(const Team& team, int index) { return {team.rank(index), 1}; }

// Elements that lie at the same place in the own and in the peers' buffers.
CollectiveStep same_place(Verb verb, const Peers& peers, Slice slice, Space space = Space::Data) {
  return {.verb = verb,
          .peers = peers,
          .space = space,
          .slice = slice,
          .peer_space = space,
          .peer_begin = slice.begin};
}

// Between the syncs of all: `work` may touch everybody's buffers.
template <class Work>
void among_all(StepBuilder& out, const Team& team, Work&& work) {
  out.sync(team.members);
  work();
  out.sync(team.members);
}

// The root and each other rank tell one another that they are at this point; the others do not wait
// for each other.
void sync_with_root(StepBuilder& out, const Team& team, int root, int mark) {
  out.next();
  out.publish();
  out.next();
  out.await(team.index == root ? team.members : only(team, root), mark);
  out.next();
}

// Between two syncs with the root: ranks copy `slice` from the root's buffer or store it into it.
void with_root(StepBuilder& out, const Team& team, int root, Verb verb, Slice slice) {
  sync_with_root(out, team, root, 1);
  if (team.index != root) out.add(same_place(verb, only(team, root), slice));
  sync_with_root(out, team, root, 2);
}

}  // namespace

void reduce_share(StepBuilder& out, const Team& team, Slice slice, Space space) {
  out.next();
  out.add(same_place(Verb::ReduceFrom, team.members, slice, space));
  out.next();
}

void store_share(StepBuilder& out, const Team& team, Slice slice, Space space) {
  out.next();
  out.add(same_place(Verb::StoreTo, team.members, slice, space));
  out.next();
}

void direct_all_reduce(StepBuilder& out, const Team& team, const Shares& shares) {
  among_all(out, team, [&] {
    reduce_share(out, team, own_share(team, shares));
    store_share(out, team, own_share(team, shares));
  });
}

void direct_reduce_scatter(StepBuilder& out, const Team& team, const Shares& shares) {
  among_all(out, team, [&] { reduce_share(out, team, own_share(team, shares)); });
}

void direct_all_gather(StepBuilder& out, const Team& team, const Shares& shares) {
  among_all(out, team, [&] { store_share(out, team, own_share(team, shares)); });
}

void direct_reduce(StepBuilder& out, const Team& team, int root, const Shares& shares) {
  among_all(out, team, [&] {
    reduce_share(out, team, own_share(team, shares));
    out.add(same_place(Verb::StoreTo, only(team, root), own_share(team, shares)));
  });
}

void direct_broadcast(StepBuilder& out, const Team& team, int root, Slice data) {
  with_root(out, team, root, Verb::CopyFrom, data);
}

void direct_scatter(StepBuilder& out, const Team& team, int root, const Shares& shares) {
  with_root(out, team, root, Verb::CopyFrom, own_share(team, shares));
}

void direct_gather(StepBuilder& out, const Team& team, int root, const Shares& shares) {
  with_root(out, team, root, Verb::StoreTo, own_share(team, shares));
}

void one_shot_all_reduce(StepBuilder& out, const Team& team, Slice data) {
  const Slice slot{0, data.size()};
  out.next();
  out.add({.verb = Verb::CopyFrom,
           .peers = only(team, team.index),
           .space = Space::Scratch,
           .slice = slot,
           .peer_begin = data.begin});
  out.sync(team.members);
  out.add({.verb = Verb::ReduceFrom,
           .peers = team.members,
           .slice = data,
           .peer_space = Space::Scratch});
  out.next();
}

std::size_t staged_scratch(Slice data, int chunks) {
  return 2 * even_shares(data, chunks).front().size();  // the first chunk is the largest
}

void staged_all_reduce(StepBuilder& out, const Team& team, Slice data, int chunks) {
  const Shares pieces = even_shares(data, chunks);
  const std::size_t half = pieces.front().size();
  const auto staged = [&](std::size_t i) {
    const std::size_t begin = i % 2 * half;
    return Slice{begin, begin + pieces[i].size()};
  };
  const auto copy = [&](Space from, std::size_t from_begin, Space to, Slice slice) {
    out.add({.verb = Verb::CopyFrom,
             .peers = only(team, team.index),
             .space = to,
             .slice = slice,
             .peer_space = from,
             .peer_begin = from_begin});
  };
  out.next();
  copy(Space::Data, pieces[0].begin, Space::Scratch, staged(0));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Slice share = own_share(team, even_shares(staged(i), team.size()));
    out.sync(team.members);  // piece i has come, piece i - 1 is done
    if (i > 0) copy(Space::Scratch, staged(i - 1).begin, Space::Data, pieces[i - 1]);
    reduce_share(out, team, share, Space::Scratch);
    store_share(out, team, share, Space::Scratch);
    if (i + 1 < pieces.size())
      copy(Space::Data, pieces[i + 1].begin, Space::Scratch, staged(i + 1));
  }
  out.sync(team.members);
  copy(Space::Scratch, staged(pieces.size() - 1).begin, Space::Data, pieces.back());
  out.next();
}

}  // namespace tutti::schedule
