// Exchanges of schedule/halving.h.
#include "schedule/halving.h"

#include <algorithm>
#include <bit>

namespace tutti::schedule {
namespace {

// The extra that a core rank serves, or the core rank that serves an extra; -1 if the index has
// none.
struct Fold {
  explicit Fold(const Team& team)
      : core(core_size(team.size())),
        is_extra(team.index >= core),
        extra(is_extra ? team.index : team.index + core) {
    const int other = is_extra ? team.index - core : extra;
    if (other < team.size()) partner = team.rank(other);
  }
  int core;
  bool is_extra;
  int extra;         // index of the extra of the two
  int partner = -1;  // rank of the other of the two
};

enum class Sender { Extra, Core };

// Between an extra and its core rank, where there is an extra: `sender` sends, the other takes.
void pass(StepBuilder& out, const Fold& fold, Sender sender, Verb take, Slice slice) {
  if (fold.partner < 0) return;
  const bool sends = fold.is_extra == (sender == Sender::Extra);
  const Verb verb = sends ? Verb::Send : take;
  out.add({.verb = verb, .peers = {fold.partner, 1}, .slice = slice});
}

// An extra hands its data to its core rank, which adds it.
void fold_in(StepBuilder& out, const Fold& fold, Slice data) {
  out.next();
  pass(out, fold, Sender::Extra, Verb::RecvAdd, data);
}

// A core rank hands `slice` to its extra.
void fold_out(StepBuilder& out, const Fold& fold, Slice slice) {
  pass(out, fold, Sender::Core, Verb::Recv, slice);
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

// What partners at a distance give each other: the half of their blocks that is the partner's to
// add up, or their own half, which is done.
enum class Give { PartnersHalf, OwnHalf };

void exchange_halves(StepBuilder& out, const Team& team, const Shares& shares, int distance,
                     Give give) {
  const int core = core_size(team.size());
  const int own = team.index & ~(distance - 1);
  const int other = own ^ distance;
  const int peer = team.rank(team.index ^ distance);
  const bool done = give == Give::OwnHalf;
  const int sent = done ? own : other;
  const int taken = done ? other : own;
  out.next();
  exchange(out, Verb::Send, peer, shares, core, sent, sent + distance);
  exchange(out, done ? Verb::Recv : Verb::RecvAdd, peer, shares, core, taken, taken + distance);
}

// A core rank ends with the sum of its block.
void halve(StepBuilder& out, const Team& team, const Shares& shares) {
  for (int distance = core_size(team.size()) / 2; distance >= 1; distance /= 2) {
    exchange_halves(out, team, shares, distance, Give::PartnersHalf);
  }
}

// A core rank starts with its block and ends with all blocks.
void double_back(StepBuilder& out, const Team& team, const Shares& shares) {
  for (int distance = 1; distance < core_size(team.size()); distance *= 2) {
    exchange_halves(out, team, shares, distance, Give::OwnHalf);
  }
}

}  // namespace

int core_size(int size) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(size))); }

void halving_all_reduce(StepBuilder& out, const Team& team, Slice data) {
  const Fold fold(team);
  const Shares blocks = even_shares(data, fold.core);
  fold_in(out, fold, data);
  if (!fold.is_extra) {
    halve(out, team, blocks);
    double_back(out, team, blocks);
  }
  out.next();
  fold_out(out, fold, data);
  out.next();
}

void halving_reduce_scatter(StepBuilder& out, const Team& team, const Shares& shares) {
  const Fold fold(team);
  fold_in(out, fold, joined(shares, 0, team.size()));
  if (!fold.is_extra) halve(out, team, shares);
  out.next();
  if (fold.partner >= 0) fold_out(out, fold, shares[static_cast<std::size_t>(fold.extra)]);
  out.next();
}

void halving_all_gather(StepBuilder& out, const Team& team, const Shares& shares) {
  const Fold fold(team);
  out.next();
  if (fold.partner >= 0) {
    pass(out, fold, Sender::Extra, Verb::Recv, shares[static_cast<std::size_t>(fold.extra)]);
  }
  if (!fold.is_extra) double_back(out, team, shares);
  out.next();
  if (fold.partner >= 0) {  // all but what the extra brought
    fold_out(out, fold, joined(shares, 0, fold.extra));
    fold_out(out, fold, joined(shares, fold.extra + 1, team.size()));
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
  fold_out(out, fold, data);
  out.next();
}

}  // namespace tutti::schedule
