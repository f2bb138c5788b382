// Chains of schedule/chain.h. All ranks keep one clock: what a rank takes in one round it passes on
// in the next.
#include "schedule/chain.h"

#include "schedule/shares.h"

namespace tutti::schedule {
namespace {

// The entries of one rank, chunk by chunk, in rounds.
class Pipeline {
 public:
  Pipeline(StepBuilder& out, Slice data, int chunks)
      : out_(out), chunks_(even_shares(data, chunks)) {}

  [[nodiscard]] int chunks() const { return static_cast<int>(chunks_.size()); }

  // Chunk c moves in round `first + c`.
  void add(int round, int first, Verb verb, int peer) {
    const int chunk = round - first;
    if (chunk < 0 || chunk >= chunks()) return;
    out_.round(round);
    out_.add({.verb = verb, .peers = {peer, 1}, .slice = chunks_[static_cast<std::size_t>(chunk)]});
  }

 private:
  StepBuilder& out_;
  Shares chunks_;
};

}  // namespace

void chain_all_reduce(StepBuilder& out, const Team& team, Slice data, int chunks) {
  Pipeline pipeline(out, data, chunks);
  const int own = team.index;
  const int last = team.size() - 1;
  out.next();
  for (int round = 0; round < 2 * last + chunks - 1; ++round) {
    if (own < last) pipeline.add(round, own, Verb::Send, team.rank(own + 1));
    if (own > 0) pipeline.add(round, own - 1, Verb::RecvAdd, team.rank(own - 1));
    if (own > 0) pipeline.add(round, 2 * last - own, Verb::Send, team.rank(own - 1));
    if (own < last) pipeline.add(round, 2 * last - own - 1, Verb::Recv, team.rank(own + 1));
  }
  out.next();
}

void chain_broadcast(StepBuilder& out, const Team& team, int root, Slice data, int chunks) {
  Pipeline pipeline(out, data, chunks);
  const int size = team.size();
  const int own = (team.index - root + size) % size;  // distance from the root
  const auto rank_at = [&](int distance) { return team.rank((root + distance) % size); };
  out.next();
  for (int round = 0; round < size - 1 + chunks - 1; ++round) {
    if (own < size - 1) pipeline.add(round, own, Verb::Send, rank_at(own + 1));
    if (own > 0) pipeline.add(round, own - 1, Verb::Recv, rank_at(own - 1));
  }
  out.next();
}

void chain_reduce(StepBuilder& out, const Team& team, int root, Slice data, int chunks) {
  Pipeline pipeline(out, data, chunks);
  const int own = team.index;
  const int last = team.size() - 1;
  const bool hand_over = root != last;
  out.next();
  for (int round = 0; round < last + (hand_over ? 1 : 0) + chunks - 1; ++round) {
    if (own < last) pipeline.add(round, own, Verb::Send, team.rank(own + 1));
    if (own > 0) pipeline.add(round, own - 1, Verb::RecvAdd, team.rank(own - 1));
    if (hand_over && own == last) pipeline.add(round, last, Verb::Send, team.rank(root));
    if (hand_over && own == root) pipeline.add(round, last, Verb::Recv, team.rank(last));
  }
  out.next();
}

}  // namespace tutti::schedule
