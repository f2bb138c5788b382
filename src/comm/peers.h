// The other ranks of this host as this one sees them: connection, life, mapped memory.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/message.h"
#include "comm/shared_memory.h"
#include "core/fd.h"

namespace tutti::comm {

/// Every pair of ranks has a connection of its own, so that no news depends on a third rank being
/// awake: there is no thread behind the engine that could relay it.
class Peers {
 public:
  /// What a rank told about itself when it connected.
  struct Link {
    core::Fd socket;
    pid_t pid = 0;   // in this process's PID namespace; 0: not visible
    core::Fd pidfd;  // empty where it may not be had, or for a rank in this very process
    int numa = -1;   // node of its CPUs
  };

  Peers(int rank, int ranks, std::uint64_t run, std::shared_ptr<MappingCache> mappings);

  /// Also for a rank that takes the place of one that is gone, or a number that is new (the world
  /// grows to it).
  void connect(int peer, Link link);
  /// Takes a connection over that was made elsewhere, so that nobody held a lock while it came.
  void adopt(Peers& from, int peer) { connect(peer, std::move(from.peers_[peer].link)); }
  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }
  [[nodiscard]] pid_t pid(int peer) const { return peers_[peer].link.pid; }
  /// NUMA node of a rank, this one included; -1: unknown.
  [[nodiscard]] int numa(int rank) const { return peers_[rank].link.numa; }
  void set_own_numa(int node) { peers_[rank_].link.numa = node; }
  [[nodiscard]] bool left(int peer) const { return peers_[peer].left; }
  [[nodiscard]] bool dead(int peer) const { return peers_[peer].dead; }
  [[nodiscard]] std::uint64_t run() const { return run_; }

  /// One packet to one rank, or to all; a rank that is gone is not an error here.
  void tell(int peer, Message message, int fd);
  void tell_all(const Message& message, int fd);

  /// Where [offset, +bytes) of a segment of that rank's arena is mapped here. Maps a new segment at
  /// once: its owner announced it before any descriptor could name it.
  /// Throws core::PeerError if the segment is unknown or the range lies outside of it.
  std::byte* address(int peer, std::uint16_t segment, std::uint64_t offset, std::uint64_t bytes);
  /// The same, mapped as long as the handle lives, even if the rank is replaced by another.
  std::shared_ptr<std::byte> share(int peer, std::uint16_t segment, std::uint64_t offset,
                                   std::uint64_t bytes);

  /// Control memory of the group `key` if its creator has sent it by now, else null. Throws
  /// core::PeerError if what it sent is no such memory.
  std::shared_ptr<Mapping> take_group(int creator, std::uint64_t key, std::size_t bytes);

  /// Looks at all connections and pidfds, without waiting or for at most `wait_ms`: who is dead
  /// (gone without Bye) is known afterwards.
  void look(int wait_ms = 0);
  [[nodiscard]] const std::string& death(int peer) const { return peers_[peer].death; }

  /// Makes sure that a rank stores no more: it left in order (its process may live on), its
  /// connection ended with it, or it is killed through its pidfd and its end awaited. A rank that
  /// is only stopped would go on storing into this process's memory when it is continued. Throws
  /// core::RunError if its end cannot be had.
  void evict(int peer, const core::Deadline& deadline);

 private:
  struct Offer {
    std::uint64_t key;
    std::size_t bytes;
    core::Fd fd;
  };
  struct Peer {
    Link link;
    bool left = false;  // said Bye
    bool dead = false;  // gone without it
    std::string death;  // how that was seen
    std::vector<std::shared_ptr<Mapping>> segments;
    std::deque<Offer> groups;
  };

  void drain(int peer);
  void accept_news(int peer, Received& received);
  void lose(int peer, std::string how);

  int rank_;
  std::uint64_t run_;
  std::shared_ptr<MappingCache> mappings_;
  std::vector<Peer> peers_;
};

}  // namespace tutti::comm
