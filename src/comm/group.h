// A communicator's shared state: the queue of its operations and its place in control memory.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/addition_order.h"
#include "comm/communicator.h"
#include "comm/control.h"
#include "comm/engine.h"
#include "comm/lines.h"
#include "comm/operation.h"
#include "comm/plans.h"

namespace tutti::comm {

class OneShotOperation;
struct Signature;

class Communicator::State : public std::enable_shared_from_this<Communicator::State> {
 public:
  static constexpr int kCredits = 16;  // messages of send() under way per ordered pair
  static constexpr int kPipes = 4;     // further ones for the messages of schedules
  static constexpr int kEnvelopes = kCredits + kPipes;

  /// `members`: world ranks, ascending. A group of one has no control block.
  State(std::shared_ptr<Engine> engine, std::string name, std::vector<int> members,
        ControlBlock block);
  ~State();

  [[nodiscard]] Engine& engine() const { return *engine_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  /// In which order values are added.
  [[nodiscard]] const GroupMap& map() const { return map_; }
  [[nodiscard]] int world_rank(int rank) const { return members_[rank]; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const ControlBlock& block() const { return block_; }

  /// Queues it and runs what can be run; a brief one of an idle group may be over before it is
  /// queued. Throws the group's error if it has one.
  Pending submit(std::shared_ptr<Operation> collective);
  Pending submit_one_shot(const Signature& signature, Label label, Buffer io);
  Pending submit_reduce(const Signature& signature, Label label, std::vector<std::size_t> bounds,
                        Buffer io, ReduceStats* stats);
  Pending submit_send(std::shared_ptr<Operation> send, int peer);
  Pending submit_recv(std::shared_ptr<Operation> recv, int peer, int tag);  // kAnySource: any

  /// For whoever holds neither the group nor one of its operations: keeps it alive meanwhile.
  bool progress();
  bool advance();      // for those who do
  void check_abort();  // has another rank ended this group?
  void check_waits();  // leavers and deadlines
  void fail(const std::exception_ptr& error);
  void abort(int culprit, const std::string& text);
  void close(const std::exception_ptr& error);

  // For operations, which run one after the other:
  std::uint32_t next_number() { return ++number_; }
  /// The flag and the wake-up. `now` in ticks.
  void publish(OpDescriptor& mine, std::uint32_t number, std::uint64_t now);
  void post_mark(std::uint64_t mark);  // the same for a point inside
  [[nodiscard]] bool has_arrived(int rank, std::uint32_t number) const {
    return reached(block_.descriptor(rank, number).seq.load(), number);
  }
  [[nodiscard]] bool seems_past(int rank, std::uint64_t mark) const {
    return passed(block_.lines(rank).marks.at.load(), mark);
  }
  /// The same; throws core::PeerError for a mark that no rank can have set.
  [[nodiscard]] bool has_passed(int rank, std::uint64_t mark) const {
    const std::uint64_t at = block_.lines(rank).marks.at.load();
    if (!passed(at, mark)) return false;
    if (!plausible(at, mark)) refuse_mark(rank, at);
    return true;
  }
  /// Fetches this rank's mark, which others have read, while there is something else to do.
  void fetch_mark() const { own_line(&block_.lines(rank_).marks.at); }
  void wake_members() const { engine_->wake(others_); }
  void wake_member(int rank) const { engine_->wake(members_[rank]); }
  /// Address of that rank's arena memory here; errors as Peers::address.
  std::byte* address(int rank, std::uint16_t segment, std::uint64_t offset, std::uint64_t bytes) {
    return engine_->peers().address(members_[rank], segment, offset, bytes);
  }
  /// Two halves of kChunkBytes in the arena, made when first needed.
  std::byte* staging();
  static constexpr std::size_t kChunkBytes = std::size_t{128} << 10;
  /// Arena memory for the schedule of the operation with that number, at least `bytes`. Two, by
  /// parity: peers may still read the other one.
  std::byte* scratch(std::uint32_t number, std::size_t bytes);

  /// Number of the next message to a peer, and what the sender knows about its envelopes.
  std::uint32_t next_message(int peer) { return ++messages_[peer]; }
  std::shared_ptr<std::byte>& bounce(int peer, int index) {
    return bounces_[static_cast<std::size_t>(peer) * kEnvelopes + index];
  }
  /// Messages of schedules that went to and came from a peer so far.
  struct Pipe {
    std::uint32_t sent = 0, taken = 0;
  };
  Pipe& pipe(int peer) { return pipes_[peer]; }

  /// The lists of schedules made lately.
  Plans& plans() { return plans_; }

 private:
  using Queue = std::deque<std::shared_ptr<Operation>>;
  Pending enqueue(Queue& queue, std::shared_ptr<Operation> operation);
  bool run(Queue& queue);
  bool ends_at_once(Operation& operation);
  void fail_with_current();
  [[noreturn]] void refuse_mark(int rank, std::uint64_t at) const;
  void end(Operation& operation);
  void note_done(std::uint32_t number, std::uint64_t now);
  void check_wait(Operation& operation);
  void check_alive() const;
  template <class Visit>
  void for_each_queue(Visit&& visit) const;  // those that are not empty

  std::shared_ptr<Engine> engine_;
  std::string name_;
  std::vector<int> members_, others_;  // world ranks
  GroupMap map_;
  int rank_ = 0;
  ControlBlock block_;
  std::uint32_t number_ = 0;
  Queue collectives_;
  std::map<int, Queue> sends_;                  // by peer: FIFO whatever the tag
  std::map<std::pair<int, int>, Queue> recvs_;  // by peer and tag
  std::vector<std::uint32_t> messages_;
  std::vector<std::shared_ptr<std::byte>> bounces_;
  std::vector<Pipe> pipes_;
  Plans plans_;
  std::shared_ptr<std::byte> staging_;
  struct Scratch {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
  };
  std::array<Scratch, 2> scratch_;
  std::exception_ptr error_;
  bool closed_ = false;
};

using Group = Communicator::State;

}  // namespace tutti::comm
