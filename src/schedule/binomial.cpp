// Ranks are numbered from the root on (position p = rank - root, modulo P). The subtree of position
// p at reach d holds the positions p ... p + d - 1, so its shares are adjacent but for one
// wrap-around.
#include "schedule/binomial.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti::schedule {
namespace {

struct Positions {
  const Team& team;
  int root;
  [[nodiscard]] int own() const { return (team.index - root + team.size()) % team.size(); }
  [[nodiscard]] int index(int position) const { return (root + position) % team.size(); }
  [[nodiscard]] int rank(int position) const { return team.rank(index(position)); }
  // Slices of positions [first, last): one, or two if they wrap around.
  [[nodiscard]] std::pair<Slice, Slice> slices(const Shares& shares, int first, int last) const {
    const int size = team.size();
    last = std::min(last, size);
    const int begin = root + first;
    const int end = root + last;
    if (begin >= size) return {joined(shares, begin - size, end - size), {}};
    return {joined(shares, begin, std::min(end, size)), joined(shares, 0, std::max(end - size, 0))};
  }
};

// Largest reach of the root's tree: the smallest power of two that covers all positions, halved.
int widest(int size) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) / 2; }

// Distance from `position` to its parent, which is also how many positions its subtree reaches
// over.
int reach(int position) { return position & -position; }

void add_both(StepBuilder& out, Verb verb, int peer, const std::pair<Slice, Slice>& slices) {
  out.add({.verb = verb, .peers = {peer, 1}, .slice = slices.first});
  out.add({.verb = verb, .peers = {peer, 1}, .slice = slices.second});
}

}  // namespace

void binomial_scatter(StepBuilder& out, const Team& team, int root, const Shares& shares) {
  const Positions positions{team, root};
  const int own = positions.own();
  int distance = widest(team.size());
  out.next();
  if (own != 0) {
    const int up = reach(own);
    add_both(out, Verb::Recv, positions.rank(own - up), positions.slices(shares, own, own + up));
    distance = up / 2;
  }
  for (; distance >= 1; distance /= 2) {
    if (own + distance >= team.size()) continue;
    out.next();
    add_both(out, Verb::Send, positions.rank(own + distance),
             positions.slices(shares, own + distance, own + 2 * distance));
  }
  out.next();
}

void binomial_gather(StepBuilder& out, const Team& team, int root, const Shares& shares) {
  const Positions positions{team, root};
  const int own = positions.own();
  const int up = own == 0 ? 2 * widest(team.size()) : reach(own);
  for (int distance = 1; distance < up; distance *= 2) {
    if (own + distance >= team.size()) break;
    out.next();
    add_both(out, Verb::Recv, positions.rank(own + distance),
             positions.slices(shares, own + distance, own + 2 * distance));
  }
  out.next();
  if (own != 0) {
    add_both(out, Verb::Send, positions.rank(own - up), positions.slices(shares, own, own + up));
  }
  out.next();
}

}  // namespace tutti::schedule
