// Exchanges of schedule/all_to_all.h.
#include "schedule/all_to_all.h"

namespace tutti::schedule {
namespace {

void copy_part(StepBuilder& out, const Team& team, const Parts& parts, int from) {
  out.add({.verb = Verb::CopyFrom,
           .peers = {team.rank(from), 1},
           .slice = parts.output(from, team.index),
           .peer_space = Space::Input,
           .peer_begin = parts.input(from, team.index).begin});
}

}  // namespace

void ring_all_to_all(StepBuilder& out, const Team& team, const Parts& parts) {
  const int own = team.index;
  const int size = team.size();
  out.next();
  copy_part(out, team, parts, own);
  for (int round = 1; round < size; ++round) {
    const int to = (own + round) % size;
    const int from = (own - round + size) % size;
    out.round(round);
    out.add({.verb = Verb::Send,
             .peers = {team.rank(to), 1},
             .space = Space::Input,
             .slice = parts.input(own, to)});
    out.recv(team.rank(from), parts.output(from, own));
  }
  out.next();
}

void direct_all_to_all(StepBuilder& out, const Team& team, const Parts& parts) {
  out.sync(team.members);
  for (int i = 0; i < team.size(); ++i) {
    copy_part(out, team, parts, (team.index + i) % team.size());  // not all from rank 0 first
  }
  out.sync(team.members);
}

}  // namespace tutti::schedule
