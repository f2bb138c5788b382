// What one rank does in a collective, entry by entry. comm::Executor runs the list, sim::replay
// prices it, report draws it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::schedule {

/// Elements [begin, end) of one buffer. Elements, not bytes.
struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return begin == end; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Which buffer of a rank.
enum class Space : std::uint8_t {
  Data,     // the caller's: holds the input at the start and the output at the end
  Input,    // all-to-all only: the caller's input, read and never written
  Scratch,  // the engine's slots, CollectiveSchedule::scratch elements; alternate between
            // operations, so a peer may still read an operation's slot after its owner has left the
            // operation
};

enum class Verb : std::uint8_t {
  Send,     // slice -> the peer's queue. Done when the message has a slot there
  Recv,     // slice = the next message of the peer
  RecvAdd,  // slice += the next message of the peer
  Publish,  // this rank's flag = mark: all that its earlier steps did can be seen by who awaits it
  Await,    // until the flag of each peer is at least mark
  ReduceFrom,  // slice = sum of the peers' slices, added from the first peer to the last
  StoreTo,     // the peers' slices = slice
  CopyFrom,    // slice = the peer's slice
};

/// Ranks first, first + stride, ... (count of them). One peer: {rank, 1}.
struct Peers {
  int first = 0;
  int count = 0;
  int stride = 1;
  [[nodiscard]] int rank(int i) const { return first + i * stride; }
  friend bool operator==(const Peers&, const Peers&) = default;
};

/// One thing one rank does. A list is ascending in `step`; entries of the same step may run at
/// once, a step starts when the rank has finished the one before. Numbers may have gaps and mean
/// nothing to other ranks.
///
/// Messages of one ordered pair of ranks arrive in list order, and at most
/// CollectiveSchedule::slots of them wait to be received. An entry whose slice is empty moves
/// nothing and is skipped, on both sides. The own rank may be among the peers of Await and StoreTo,
/// where it is skipped, and of ReduceFrom and CopyFrom, where it is one more source.
struct CollectiveStep {
  int step = 0;
  Verb verb = Verb::Send;
  Peers peers;                // Publish: none. Send, Recv, RecvAdd, CopyFrom: one
  Space space = Space::Data;  // the own slice; Publish and Await have none
  Slice slice;
  Space peer_space = Space::Data;  // ReduceFrom, StoreTo, CopyFrom: where the peer's slice begins
  std::size_t peer_begin = 0;
  int mark = 0;  // Publish, Await: counts a rank's Publish entries from 1
  friend bool operator==(const CollectiveStep&, const CollectiveStep&) = default;
};

std::string_view name(Verb verb);
std::string_view name(Space space);

/// "Send to 3 of elements [4, 8)", "Await of ranks 0-3, mark 2": for messages.
std::string describe(const CollectiveStep& step);

/// True for the verbs that carry a message or touch a slice; false for Publish and Await.
inline bool moves_data(Verb verb) { return verb != Verb::Publish && verb != Verb::Await; }
/// True for the verbs that reach into a peer's memory.
inline bool one_sided(Verb verb) {
  return verb == Verb::ReduceFrom || verb == Verb::StoreTo || verb == Verb::CopyFrom;
}
inline bool receives(Verb verb) { return verb == Verb::Recv || verb == Verb::RecvAdd; }
/// True if executor, simulator and verifier skip the entry: it would move nothing.
inline bool skipped(const CollectiveStep& step) {
  return moves_data(step.verb) && step.slice.empty();
}

/// The lists of all ranks, by rank.
using StepLists = std::vector<std::vector<CollectiveStep>>;

}  // namespace tutti::schedule
