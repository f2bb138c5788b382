// Rendezvous of the ranks.
#include "train/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/store.h"
#include "core/error.h"
#include "core/lines.h"

namespace tutti::train {
namespace {

// Under torchrun its agent serves a store at MASTER_PORT already; TORCHELASTIC_USE_AGENT_STORE says
// so. Our launcher hands rank 0 the listening socket.
std::unique_ptr<comm::Store> open_store(const launch::JoinOptions& options, bool serve,
                                        WireUp patience) {
  if (options.ranks == 1) return nullptr;
  return backend::connect_store({.rank = options.rank,
                                 .host = options.master_addr,
                                 .port = options.master_port,
                                 .listen_fd = serve ? options.store_listen_fd : -1,
                                 .serve = serve,
                                 .prefix = "tutti/" + options.run_id,
                                 .timeout = core::Seconds(patience.seconds)});
}

// Empty, or what this rank has otherwise than rank 0.
std::string difference(int rank, const std::vector<std::string>& own,
                       const std::string& of_rank_0) {
  const auto differs = core::first_difference(own, core::split_lines(of_rank_0));
  if (!differs) return {};
  return fmt::format(
      "Rank {} has \"{}\", rank 0 has \"{}\": all ranks of a run need the same program and config. "
      "Start every rank with the same files.",
      rank, differs->first, differs->second);
}

// Each rank compares with rank 0 and tells it, so that the two that differ both end.
void check_alike(comm::Store& store, int rank, int ranks, const std::vector<std::string>& alike,
                 WireUp patience) {
  const core::Deadline deadline{core::Seconds(patience.seconds)};
  const auto key = [](int of) { return fmt::format("alike/{}", of); };
  if (rank > 0) {
    const std::string wrong = difference(rank, alike, store.get(key(0), deadline));
    store.set(key(rank), wrong);
    if (!wrong.empty()) throw core::ConfigError(wrong);
    return;
  }
  store.set(key(0), fmt::format("{}", fmt::join(alike, "\n")));
  for (int other = 1; other < ranks; ++other) {
    const std::string wrong = store.get(key(other), deadline);
    if (!wrong.empty()) throw core::ConfigError(wrong);
  }
}

}  // namespace

World join(const launch::JoinOptions& options, const std::vector<std::string>& alike,
           const comm::CommOptions& comm, const ArenaOptions& arena, WireUp patience) {
  std::unique_ptr<comm::Store> store = open_store(options, !options.agent_store, patience);
  if (store != nullptr) check_alike(*store, options.rank, options.ranks, alike, patience);
  comm::World world = comm::wire_up(store.get(), {.rank = options.rank,
                                                  .ranks = options.ranks,
                                                  .run_id = options.run_id,
                                                  .comm = comm,
                                                  .wire_up_timeout_s = patience.seconds,
                                                  .arena_bytes = arena.bytes,
                                                  .require_huge_pages = arena.require_huge_pages});
  return {options, std::move(store), std::move(world)};
}

std::unique_ptr<comm::Store> connect_again(const launch::JoinOptions& options, WireUp patience) {
  return open_store(options, false, patience);
}

}  // namespace tutti::train
