// A communicator's shared state: the queue of its operations and its place in control memory.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/control.h"
#include "comm/engine.h"
#include "comm/operation.h"

namespace tutti::comm {

class Communicator::State : public std::enable_shared_from_this<Communicator::State> {
 public:
  static constexpr int kCredits = 16;  // messages under way per ordered pair

  /// `members`: world ranks, ascending. A group of one has no control block.
  State(std::shared_ptr<Engine> engine, std::string name, std::vector<int> members,
        ControlBlock block);
  ~State();

  [[nodiscard]] Engine& engine() const { return *engine_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int world_rank(int rank) const { return members_[rank]; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const ControlBlock& block() const { return block_; }

  /// Queues it and runs what can be run. Throws the group's error if it has one.
  Pending submit(std::shared_ptr<Operation> collective);
  Pending submit_send(std::shared_ptr<Operation> send, int peer);
  Pending submit_recv(std::shared_ptr<Operation> recv, int peer, int tag);

  bool progress();
  void check_abort();  // has another rank ended this group?
  void check_waits();  // leavers and deadlines
  void fail(const std::exception_ptr& error);
  void abort(int culprit, const std::string& text);
  void close(const std::exception_ptr& error);

  // For operations, which run one after the other:
  std::uint32_t next_number() { return ++number_; }
  [[nodiscard]] std::uint32_t steps() const { return steps_; }
  void publish(OpDescriptor& mine, std::uint32_t number);  // the flag and the wake-up
  void post_step();                                        // enters the next sync
  void note_done(std::uint32_t number);
  [[nodiscard]] bool has_arrived(int rank, std::uint32_t number) const {
    return reached(block_.descriptor(rank, number).seq.load(), number);
  }
  [[nodiscard]] bool has_stepped(int rank, std::uint32_t step) const {
    return reached(block_.lines(rank).steps.done.load(), step);
  }
  void wake_members() const { engine_->wake(others_); }
  void wake_member(int rank) const { engine_->wake({members_[rank]}); }
  /// Address of that rank's arena memory here; errors as Peers::address.
  std::byte* address(int rank, std::uint16_t segment, std::uint64_t offset, std::uint64_t bytes) {
    return engine_->peers().address(members_[rank], segment, offset, bytes);
  }
  /// Two halves of kChunkBytes in the arena, made when first needed.
  std::byte* staging();
  static constexpr std::size_t kChunkBytes = std::size_t{128} << 10;

  /// Number of the next message to a peer, and what the sender knows about its envelopes.
  std::uint32_t next_message(int peer) { return ++messages_[peer]; }
  std::shared_ptr<std::byte>& bounce(int peer, int index) {
    return bounces_[static_cast<std::size_t>(peer) * kCredits + index];
  }

 private:
  using Queue = std::deque<std::shared_ptr<Operation>>;
  bool run(Queue& queue);
  void check_wait(Operation& operation);
  void check_alive() const;
  template <class Visit>
  void for_each_head(Visit&& visit);

  std::shared_ptr<Engine> engine_;
  std::string name_;
  std::vector<int> members_, others_;  // world ranks
  int rank_ = 0;
  ControlBlock block_;
  std::uint32_t number_ = 0, steps_ = 0;
  Queue collectives_;
  std::map<int, Queue> sends_;                  // by peer: FIFO whatever the tag
  std::map<std::pair<int, int>, Queue> recvs_;  // by peer and tag
  std::vector<std::uint32_t> messages_;
  std::vector<std::shared_ptr<std::byte>> bounces_;
  std::shared_ptr<std::byte> staging_;
  std::exception_ptr error_;
  bool closed_ = false;
};

using Group = Communicator::State;

}  // namespace tutti::comm
