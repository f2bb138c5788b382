// A world from its peers: connections, control memory, the first segment, a barrier; and how one
// grows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "comm/group.h"
#include "comm/peers.h"
#include "comm/rendezvous.h"
#include "comm/world.h"
#include "comm/world_state.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

void check_options(const Store* store, const WireUpOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks ||
      options.ranks > ControlBlock::kMostRanks) {
    throw std::invalid_argument(
        fmt::format("rank {} of {} ranks: ranks count from 0, and a host has at most {}",
                    options.rank, options.ranks, ControlBlock::kMostRanks));
  }
  if (options.ranks > 1 && store == nullptr) {
    throw std::invalid_argument("more than one rank need a store to meet in");
  }
  if (!options.join) return;
  const auto& [members, joiners, epoch] = *options.join;
  check_joiners(members, joiners);
  const auto known = [&options](int rank) { return rank >= 0 && rank < options.ranks; };
  if (std::count(joiners.begin(), joiners.end(), options.rank) == 0 ||
      !std::all_of(members.begin(), members.end(), known) ||
      !std::all_of(joiners.begin(), joiners.end(), known)) {
    throw std::invalid_argument(
        fmt::format("rank {} of {} cannot join: members are {}, joiners {}; it must be one of the "
                    "joiners, and all must be below {}",
                    options.rank, options.ranks, fmt::join(members, " "), fmt::join(joiners, " "),
                    options.ranks));
  }
}

}  // namespace

void World::State::grow(Store& store, const std::vector<int>& joiners) {
  engine_->check_process();
  std::vector<int> members = engine_->members();
  check_joiners(members, joiners);
  WireUpOptions options = options_;
  options.ranks = std::max(engine_->size(), *std::max_element(joiners.begin(), joiners.end()) + 1);
  // Joiners may take long to come. Meanwhile this rank's other threads go on, and see deaths.
  Peers joined(engine_->rank(), options.ranks, engine_->peers().run(), nullptr);
  find_peers(store, options, epoch_ + 1, joined, {}, joiners);
  {
    const Engine::Lock lock(*engine_);
    for (const int rank : joiners) engine_->peers().adopt(joined, rank);
    engine_->arena().announce_again([&](std::uint16_t segment, int fd, std::size_t bytes) {
      Message message;
      message.kind = MessageKind::Segment;
      message.number = segment;
      message.bytes = bytes;
      for (const int rank : joiners) engine_->peers().tell(rank, message, fd);
    });
  }
  const std::vector<int> makers = members;
  members.insert(members.end(), joiners.begin(), joiners.end());
  std::sort(members.begin(), members.end());
  next_epoch(members, makers, "grown");
}

World wire_up(Store* store, const WireUpOptions& options) {
  check_options(store, options);
  auto mappings = options.mappings ? options.mappings : std::make_shared<MappingCache>();
  auto peers =
      std::make_unique<Peers>(options.rank, options.ranks, text_hash(options.run_id), mappings);
  std::vector<int> lower, higher, members, makers;
  for (int r = 0; r < options.ranks; ++r) {
    if (r < options.rank) lower.push_back(r);
    if (r > options.rank) higher.push_back(r);
    members.push_back(r);
  }
  makers = members;
  std::uint32_t epoch = 0;
  if (options.join) {
    // Members listen; joiners call them, and those joiners that are lower.
    makers = lower = members = options.join->members;
    epoch = options.join->epoch + 1;
    higher.clear();
    for (const int rank : options.join->joiners) {
      members.push_back(rank);
      if (rank < options.rank) lower.push_back(rank);
      if (rank > options.rank) higher.push_back(rank);
    }
    std::sort(members.begin(), members.end());
  }
  if (options.ranks > 1) find_peers(*store, options, epoch, *peers, lower, higher);
  CommOptions comm;  // until everybody is there, wire-up's own deadline holds
  comm.timeout_s = options.wire_up_timeout_s;
  auto engine = std::make_shared<Engine>(options.rank, std::move(peers), mappings, comm);
  auto state = std::make_shared<World::State>(engine, options);
  state->join(members, makers, epoch);
  if (options.arena_bytes > 0 && options.ranks > 1) {  // one rank's memory is plain
    engine->arena().add_segment(options.arena_bytes, options.require_huge_pages);
  }
  state->meet(makers.front());
  engine->set_options(options.comm);
  return World(std::move(state));
}

}  // namespace tutti::comm
