// All ranks of a job, wired up: who is on which host, whose memory is mapped, who is alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/options.h"
#include "comm/store.h"

namespace tutti::comm {

class MappingCache;

/// Shared memory of this process, in bytes.
struct MemoryReport {
  int segments = 0;
  std::size_t reserved = 0;  // by this rank's arena; all of it can be had without asking the host
  std::size_t used = 0;      // handed out
  std::size_t largest_free = 0;  // the largest block that needs no new segment
  /// What this process's mappings of all ranks' arenas and control memory weigh, each page divided
  /// by the processes that map it. -1 if the kernel does not say.
  std::int64_t pss = -1;
};

struct WireUpOptions {
  int rank = 0;
  int ranks = 1;
  std::string run_id;  // keys carry it; another run's are refused
  CommOptions comm;
  double wire_up_timeout_s = 60;
  /// First segment, reserved at once; the arena grows by further segments on demand. Of no meaning
  /// to a single rank, whose memory is plain.
  std::size_t arena_bytes = 0;
  bool require_huge_pages = false;  // of that segment: an error where the host does not give them
  /// NUMA node of every rank, instead of where they run; empty: each finds its own out.
  std::vector<int> numa;
  /// For a process that joins a world which is there already (see World::grow): the members before
  /// it and their World::epoch(). Every member names the same joiners at the same time.
  struct Join {
    std::vector<int> members, joiners;
    std::uint32_t epoch = 0;
  };
  std::optional<Join> join;
  /// Ranks that are threads of one process share one (comm/testing.h), so that memory is mapped
  /// once. Null: its own.
  std::shared_ptr<MappingCache> mappings;
};

/// This process's connections to all ranks. Outlives every Communicator made from it.
class World {
 public:
  class State;
  explicit World(std::shared_ptr<State> state) : state_(std::move(state)) {}

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// The group of these world ranks (ascending; this rank among them). Every member calls it in the
  /// same order.
  [[nodiscard]] Communicator group(const std::string& name, const std::vector<int>& world_ranks);

  /// Goes on without the others, after an error or before one: every survivor calls it with the
  /// same world ranks (ascending, this one among them). Ranks keep their numbers. Those
  /// of the others that have not left in order are killed first, and only when they are surely gone
  /// does anybody go on, for a stopped rank that wakes up would write into memory that has a new
  /// life. All groups end; arenas and their contents stay. Throws core::RunError if a rank cannot
  /// be evicted, core::PeerError if a survivor does not come.
  void shrink(const std::vector<int>& survivors);

  /// Takes in `joiners`: numbers of ranks that are gone, or new ones. They call wire_up() with
  /// WireUpOptions::join while all members call this. All groups end; arenas and their contents
  /// stay.
  void grow(Store& store, const std::vector<int>& joiners);

  /// World ranks that belong to it, and how often that changed.
  [[nodiscard]] const std::vector<int>& members() const;
  [[nodiscard]] std::uint32_t epoch() const;

  [[nodiscard]] MemoryReport memory() const;

  /// Rank 0's table of algorithms as every rank uses it: to be kept in plan.json, edited, and given
  /// back in CommOptions::table.
  [[nodiscard]] const ChoiceTable& table() const;

  /// From now on SIGUSR1 makes this rank write its flight recorder (CommOptions::flight_file),
  /// within a second even when it hangs.
  void dump_on_signal();

  /// Tells every rank to stop waiting, with a reason that names this rank. Idempotent, from any
  /// thread.
  void abort(const std::string& why);

  /// What this rank does outside operations, for the hang report: "loader.next", "checkpoint". Kept
  /// until the next call.
  void set_activity(std::string_view what);

 private:
  std::shared_ptr<State> state_;
};

/// Finds the peers through the store, connects over AF_UNIX, exchanges arenas (memfd) and starts
/// watching for deaths. One rank needs no store. Throws core::PeerError naming the ranks that did
/// not come before the deadline, and core::RunError if a rank is on another host (that transport
/// comes later).
World wire_up(Store* store, const WireUpOptions& options);

}  // namespace tutti::comm
