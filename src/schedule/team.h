// What the generators share: the ranks that run an algorithm together, and the list being written.
#pragma once

#include <utility>
#include <vector>

#include "schedule/collective_step.h"

namespace tutti::schedule {

/// Some ranks of a collective, numbered by index, and which of them the list is for. A whole
/// collective, a group or a rail of a hierarchy: the algorithms do not care.
struct Team {
  Peers members;
  int index = 0;  // 0 <= index < size()
  [[nodiscard]] int size() const { return members.count; }
  [[nodiscard]] int rank(int i) const { return members.rank(i); }
};

/// Writes the list of one rank. Entries that are added in a row belong to one step until next() or
/// round() is called.
class StepBuilder {
 public:
  /// Entries from here on wait for all that were added before.
  void next();
  /// Entries from here on belong to round `round`, counted from the last next(). Rounds never go
  /// back.
  void round(int round) { round_ = round; }

  void send(int peer, Slice slice) {
    add({.verb = Verb::Send, .peers = {peer, 1}, .slice = slice});
  }
  void recv(int peer, Slice slice) {
    add({.verb = Verb::Recv, .peers = {peer, 1}, .slice = slice});
  }
  void recv_add(int peer, Slice slice) {
    add({.verb = Verb::RecvAdd, .peers = {peer, 1}, .slice = slice});
  }
  void add(CollectiveStep entry);

  void publish();
  void await(const Peers& peers, int mark);
  /// Publish, then Await the same mark of all peers: they are here and their earlier steps are
  /// done. Steps of its own.
  void sync(const Peers& peers);

  [[nodiscard]] std::vector<CollectiveStep> take() { return std::move(list_); }

 private:
  std::vector<CollectiveStep> list_;
  int base_ = 0;
  int round_ = 0;
  int mark_ = 0;  // of the last Publish
};

}  // namespace tutti::schedule
