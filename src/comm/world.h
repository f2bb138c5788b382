// All ranks of a job, wired up: who is on which host, whose memory is mapped, who is alive.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/options.h"
#include "comm/store.h"

namespace tutti::comm {

class MappingCache;

struct WireUpOptions {
  int rank = 0;
  int ranks = 1;
  std::string run_id;  // keys carry it; another run's are refused
  CommOptions comm;
  double wire_up_timeout_s = 60;
  std::size_t arena_bytes = 0;    // first segment, reserved at once; the arena grows by further segments on demand
  bool require_huge_pages = false;  // of that segment: an error where the host does not give them
  /// Ranks that are threads of one process share one (comm/testing.h), so that memory is mapped once. Null: its own.
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
