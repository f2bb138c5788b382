// Exchanges of schedule/halving.h.
#include "schedule/halving.h"

#include <algorithm>
#include <bit>

namespace tutti::schedule {
namespace {

// The extra that a core rank serves, or the core rank that serves an extra; -1 if the index has
// none.
struct Fold {
  explicit Fold(const Team& team) : core(core_size(team.size())), is_extra(team.index >= core) {
    const int other = is_extra ? team.index - core : team.index + core;
    if (other < team.size()) partner = team.rank(other);
  }
  int core;
  bool is_extra;
  int partner = -1;
};

// An extra hands its data to its core rank, which adds it.
void fold_in(StepBuilder& out, const Fold& fold, Slice data) {
  if (fold.partner < 0) return;
  out.next();
  if (fold.is_extra) {
    out.send(fold.partner, data);
  } else {
    out.recv_add(fold.partner, data);
  }
}

// A core rank hands `slice` to its extra.
void fold_out(StepBuilder& out, const Fold& fold, Slice slice) {
  if (fold.is_extra) {
    out.recv(fold.partner, slice);
  } else {
    out.send(fold.partner, slice);
  }
}

// Blocks [first, last) of the core: their own shares and, where there is a share per rank, those of
// their extras.
void exchange(StepBuilder& out, Verb verb, int peer, const Shares& shares, int core, int first,
              int last) {
  const int size = static_cast<int>(shares.size());
  const auto add = [&](Slice slice) {
    out.add({.verb = verb, .peers = {peer, 1}, .slice = slice});
  };
  add(joined(shares, first, last));
  if (first + core < size) add(joined(shares, first + core, std::min(last + core, size)));
}

// A core rank ends with the sum of its block. Works on the blocks [first, first + 2 * distance).
void halve(StepBuilder& out, const Team& team, int core, const Shares& shares) {
  for (int distance = core / 2; distance >= 1; distance /= 2) {
    const int kept = team.index & ~(distance - 1);
    const int given = kept ^ distance;
    const int peer = team.rank(team.index ^ distance);
    out.next();
    exchange(out, Verb::Send, peer, shares, core, given, given + distance);
    exchange(out, Verb::RecvAdd, peer, shares, core, kept, kept + distance);
  }
}

// A core rank starts with its block and ends with all blocks.
void double_back(StepBuilder& out, const Team& team, int core, const Shares& shares) {
  for (int distance = 1; distance < core; distance *= 2) {
    const int own = team.index & ~(distance - 1);
    const int other = own ^ distance;
    const int peer = team.rank(team.index ^ distance);
    out.next();
    exchange(out, Verb::Send, peer, shares, core, own, own + distance);
    exchange(out, Verb::Recv, peer, shares, core, other, other + distance);
  }
}

}  // namespace

int core_size(int size) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(size))); }

void halving_all_reduce(StepBuilder& out, const Team& team, Slice data) {
  const Fold fold(team);
  const Shares blocks = even_shares(data, fold.core);
  fold_in(out, fold, data);
  if (!fold.is_extra) {
    halve(out, team, fold.core, blocks);
    double_back(out, team, fold.core, blocks);
  }
  out.next();
  if (fold.partner >= 0) fold_out(out, fold, data);
  out.next();
}

void halving_reduce_scatter(StepBuilder& out, const Team& team, const Shares& shares) {
  const Fold fold(team);
  fold_in(out, fold, joined(shares, 0, team.size()));
  if (!fold.is_extra) halve(out, team, fold.core, shares);
  out.next();
  if (fold.partner >= 0) {
    const int extra = fold.is_extra ? team.index : team.index + fold.core;
    fold_out(out, fold, shares[static_cast<std::size_t>(extra)]);
  }
  out.next();
}

void halving_all_gather(StepBuilder& out, const Team& team, const Shares& shares) {
  const Fold fold(team);
  const int extra = fold.is_extra ? team.index : team.index + fold.core;
  out.next();
  if (fold.partner >= 0) {  // the reverse of fold_out: the extra brings its share
    const Slice share = shares[static_cast<std::size_t>(extra)];
    if (fold.is_extra) {
      out.send(fold.partner, share);
    } else {
      out.recv(fold.partner, share);
    }
  }
  if (!fold.is_extra) double_back(out, team, fold.core, shares);
  out.next();
  if (fold.partner >= 0) {  // all but what the extra brought
    fold_out(out, fold, joined(shares, 0, extra));
    fold_out(out, fold, joined(shares, extra + 1, team.size()));
  }
  out.next();
}

void doubling_all_reduce(StepBuilder& out, const Team& team, Slice data) {
  const Fold fold(team);
  fold_in(out, fold, data);
  for (int distance = fold.core / 2; distance >= 1 && !fold.is_extra; distance /= 2) {
    const int peer = team.rank(team.index ^ distance);
    out.next();
    out.send(peer, data);
    out.next();  // the message must have left before its elements change
    out.recv_add(peer, data);
  }
  out.next();
  if (fold.partner >= 0) fold_out(out, fold, data);
  out.next();
}

}  // namespace tutti::schedule
