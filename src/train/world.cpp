// Rendezvous of the ranks.
#include "train/world.h"

#include "backend/store.h"

namespace tutti::train {
namespace {

constexpr double kWireUpSeconds = 60;

// Under torchrun its agent serves a store at MASTER_PORT already; TORCHELASTIC_USE_AGENT_STORE says
// so. Our launcher hands rank 0 the listening socket.
std::unique_ptr<comm::Store> open_store(const launch::JoinOptions& options, bool serve) {
  if (options.ranks == 1) return nullptr;
  return backend::connect_store({.rank = options.rank,
                                 .host = options.master_addr,
                                 .port = options.master_port,
                                 .listen_fd = serve ? options.store_listen_fd : -1,
                                 .serve = serve,
                                 .prefix = "tutti/" + options.run_id,
                                 .timeout = core::Seconds(kWireUpSeconds)});
}

}  // namespace

World join(const launch::JoinOptions& options, const comm::CommOptions& comm,
           const ArenaOptions& arena) {
  std::unique_ptr<comm::Store> store = open_store(options, !options.agent_store);
  comm::World world = comm::wire_up(store.get(), {.rank = options.rank,
                                                  .ranks = options.ranks,
                                                  .run_id = options.run_id,
                                                  .comm = comm,
                                                  .wire_up_timeout_s = kWireUpSeconds,
                                                  .arena_bytes = arena.bytes,
                                                  .require_huge_pages = arena.require_huge_pages});
  return {options, std::move(store), std::move(world)};
}

std::unique_ptr<comm::Store> connect_again(const launch::JoinOptions& options) {
  return open_store(options, false);
}

}  // namespace tutti::train
