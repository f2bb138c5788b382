// Follows every element of every buffer through a run, as symbols: what it holds, who wrote it, who
// may still read it.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedule/collective_run.h"
#include "schedule/collective_verify.h"
#include "schedule/pieces.h"
#include "schedule/sums.h"

namespace tutti::schedule {

/// One entry's access to a buffer, with the time its rank's own clock shows.
struct Access {
  int rank = -1;  // -1: none yet
  int time = 0;   // 0: the start of the rank's list; step i of the list: i + 1
  int entry = -1;
};

/// What is known of a piece of a buffer.
struct Held {
  int sum = Sums::kNothing;
  std::ptrdiff_t shift = 0;  // element i holds the sum of everybody's element i + shift
  Access written;
  std::vector<Access> read;  // since it was written
};

/// The proof of lists that are known to finish. Happens-before between ranks is kept in vector
/// clocks: a message or a mark brings along what its sender had finished before the step that sent
/// it.
class Proof {
 public:
  /// Both must outlive the proof. `lists` must be well-formed and finish under the schedule's
  /// slots.
  Proof(const CollectiveSchedule& schedule, const StepLists& lists);

  /// The first fault and its words. Call once.
  std::pair<Fault, std::string> run();

 private:
  using Clock = std::vector<int>;  // by rank: times below it are finished and visible
  struct Run {                     // a piece on its way
    std::size_t size;
    int sum;
    std::ptrdiff_t shift;  // as if the message began at element 0
  };
  struct Message {
    std::vector<Run> content;
    Clock clock;
    int step;
  };
  struct Queue {
    std::vector<Message> sent;
    std::size_t received = 0;  // the first of them
  };
  struct RankState {
    Clock clock;     // at the start of the current step
    Clock incoming;  // joins at its end
    int time = 1;
    std::vector<Clock> marks;  // at each Publish
  };
  struct Place {
    int rank;
    Space space;
    std::size_t begin;
  };

  void fill_inputs();
  void step_ends(int rank);
  void entry_done(EntryId id);
  void send(EntryId id, const CollectiveStep& step);
  void receive(EntryId id, const CollectiveStep& step);
  void await(int rank, const CollectiveStep& step);
  /// What all of `peers` had finished when they published their mark `mark`. Kept, because all
  /// ranks of a sync ask for the same.
  const Clock& clock_of(const Peers& peers, int mark);
  void reach(EntryId id, const CollectiveStep& step);
  void check_end();
  void check_left(int rank);
  void check_result(int rank, const std::vector<SummedSlice>& wanted, std::ptrdiff_t shift);
  std::vector<SummedSlice> result_of(int rank);

  Pieces<Held>& buffer(int rank, Space space);
  std::vector<Run> read(EntryId id, Place place, std::size_t size);
  void write(EntryId id, Place place, const std::vector<Run>& content);
  std::vector<Run> added(EntryId id, const std::vector<Run>& a, const std::vector<Run>& b);
  [[nodiscard]] bool before(const Access& access, int rank) const;
  void race(EntryId id, const Access& other, const Place& place, Slice slice);
  void fail(Fault fault, std::string text);
  [[nodiscard]] std::string where(EntryId id) const;
  [[nodiscard]] const CollectiveStep& step_of(EntryId id) const;

  const CollectiveSchedule& schedule_;
  const StepLists& lists_;
  int ranks_;
  bool shares_memory_;  // a rank reaches into another's buffers: else only own clocks matter
  Sums sums_;
  std::vector<Pieces<Held>> buffers_;  // by rank and space
  std::vector<RankState> states_;
  std::unordered_map<std::uint64_t, Queue> queues_;  // by ordered pair of ranks
  std::map<std::array<int, 4>, Clock> mark_clocks_;  // by peers and mark
  Fault fault_ = Fault::None;
  std::string text_;
};

}  // namespace tutti::schedule
