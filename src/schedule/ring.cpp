// Rotations of schedule/ring.h. In each round a rank sends a share to the next rank and takes the
// one before that share from the previous rank, so what it takes in one round is what it sends in
// the next.
#include "schedule/ring.h"

namespace tutti::schedule {
namespace {

void append_rounds(Rotation& out, int ranks, int first_share, Verb take) {
  const int base = out.empty() ? 0 : out.back().step + 1;
  const auto turn = [ranks](int share) { return (share % ranks + ranks) % ranks; };
  for (int round = 0; round < ranks - 1; ++round) {
    out.push_back({base + round, Verb::Send, turn(1), turn(first_share - round)});
    out.push_back({base + round, take, turn(-1), turn(first_share - round - 1)});
  }
}

}  // namespace

Rotation ring_reduce_scatter(int ranks) {
  Rotation rotation;
  append_rounds(rotation, ranks, -1,
                Verb::RecvAdd);  // so that the last sum to arrive is the own share's
  return rotation;
}

Rotation ring_all_gather(int ranks) {
  Rotation rotation;
  append_rounds(rotation, ranks, 0, Verb::Recv);
  return rotation;
}

Rotation ring_all_reduce(int ranks) {
  Rotation rotation = ring_reduce_scatter(ranks);
  append_rounds(rotation, ranks, 0, Verb::Recv);
  return rotation;
}

}  // namespace tutti::schedule
