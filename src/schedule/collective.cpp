// The registry of collectives: which generator answers which request.
#include "schedule/collective.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "schedule/all_to_all.h"
#include "schedule/binomial.h"
#include "schedule/chain.h"
#include "schedule/direct.h"
#include "schedule/halving.h"
#include "schedule/hierarchical.h"
#include "schedule/ring.h"
#include "schedule/tree.h"

namespace tutti::schedule {
namespace {

// What every generator gets.
struct Context {
  CollectiveRequest request;
  Shares shares;                       // per rank; empty for all-to-all
  std::shared_ptr<const Parts> parts;  // all-to-all
  Slice data;                          // the whole buffer
  int chunks = 1;
};

using Generator = void (*)(StepBuilder&, const Team&, const Context&);

Rotation rotation_of(const CollectiveRequest& request) {
  switch (request.operation) {
    case Operation::AllReduce:
      return ring_all_reduce(request.ranks);
    case Operation::ReduceScatter:
      return ring_reduce_scatter(request.ranks);
    case Operation::AllGather:
      return ring_all_gather(request.ranks);
    default:
      return {};
  }
}

// All-reduce over the ranks of one rail, by the name given as `between`; null: not one that can be
// asked for.
RailAllReduce rail_all_reduce(Algorithm between, int chunks) {
  switch (between) {
    case Algorithm::Ring:
      return [](StepBuilder& out, const Team& rail, Slice slice) {
        expand(ring_all_reduce(rail.size()), rail, even_shares(slice, rail.size()), out);
      };
    case Algorithm::Halving:
      return halving_all_reduce;
    case Algorithm::Doubling:
      return doubling_all_reduce;
    case Algorithm::Tree:
      return [chunks](StepBuilder& out, const Team& rail, Slice slice) {
        tree_all_reduce(out, rail, slice, chunks);
      };
    case Algorithm::Chain:
      return [chunks](StepBuilder& out, const Team& rail, Slice slice) {
        chain_all_reduce(out, rail, slice, chunks);
      };
    case Algorithm::Direct:
      return [](StepBuilder& out, const Team& rail, Slice slice) {
        direct_all_reduce(out, rail, even_shares(slice, rail.size()));
      };
    default:
      return nullptr;
  }
}

Levels levels_of(const Team& team, const Context& c) {
  return {team.index, team.size(), c.request.group};
}

struct Entry {
  Operation operation;
  Algorithm algorithm;
  Generator generator;  // null: the ring rotations
};

#define TUTTI_GENERATOR(CALL) \
  [](StepBuilder& out, const Team& team, [[maybe_unused]] const Context& c) { CALL; }

const std::vector<Entry>& registry() {
  using enum Operation;
  using enum Algorithm;
  static const std::vector<Entry> entries = {
      {AllReduce, Inline, TUTTI_GENERATOR(one_shot_all_reduce(out, team, c.data))},
      {AllReduce, OneShot, TUTTI_GENERATOR(one_shot_all_reduce(out, team, c.data))},
      {AllReduce, Direct, TUTTI_GENERATOR(direct_all_reduce(out, team, c.shares))},
      {AllReduce, Staged, TUTTI_GENERATOR(staged_all_reduce(out, team, c.data, c.chunks))},
      {AllReduce, Ring, nullptr},
      {AllReduce, Tree, TUTTI_GENERATOR(tree_all_reduce(out, team, c.data, c.chunks))},
      {AllReduce, Halving, TUTTI_GENERATOR(halving_all_reduce(out, team, c.data))},
      {AllReduce, Doubling, TUTTI_GENERATOR(doubling_all_reduce(out, team, c.data))},
      {AllReduce, Chain, TUTTI_GENERATOR(chain_all_reduce(out, team, c.data, c.chunks))},
      {AllReduce, Hierarchical,
       TUTTI_GENERATOR(hierarchical_all_reduce(
           out, levels_of(team, c), even_shares(c.data, c.request.group, c.request.align),
           rail_all_reduce(c.request.between, c.chunks)))},
      {ReduceScatter, Direct, TUTTI_GENERATOR(direct_reduce_scatter(out, team, c.shares))},
      {ReduceScatter, Ring, nullptr},
      {ReduceScatter, Halving, TUTTI_GENERATOR(halving_reduce_scatter(out, team, c.shares))},
      {ReduceScatter, Hierarchical,
       TUTTI_GENERATOR(hierarchical_reduce_scatter(out, levels_of(team, c), c.shares))},
      {AllGather, Direct, TUTTI_GENERATOR(direct_all_gather(out, team, c.shares))},
      {AllGather, Ring, nullptr},
      {AllGather, Halving, TUTTI_GENERATOR(halving_all_gather(out, team, c.shares))},
      {AllGather, Hierarchical,
       TUTTI_GENERATOR(hierarchical_all_gather(out, levels_of(team, c), c.shares))},
      {Broadcast, Direct, TUTTI_GENERATOR(direct_broadcast(out, team, c.request.root, c.data))},
      {Broadcast, Tree,
       TUTTI_GENERATOR(tree_broadcast(out, team, c.request.root, c.data, c.chunks))},
      {Broadcast, Chain,
       TUTTI_GENERATOR(chain_broadcast(out, team, c.request.root, c.data, c.chunks))},
      {Reduce, Direct, TUTTI_GENERATOR(direct_reduce(out, team, c.request.root, c.shares))},
      {Reduce, Tree, TUTTI_GENERATOR(tree_reduce(out, team, c.request.root, c.data, c.chunks))},
      {Reduce, Chain, TUTTI_GENERATOR(chain_reduce(out, team, c.request.root, c.data, c.chunks))},
      {Scatter, Direct, TUTTI_GENERATOR(direct_scatter(out, team, c.request.root, c.shares))},
      {Scatter, Tree, TUTTI_GENERATOR(binomial_scatter(out, team, c.request.root, c.shares))},
      {Gather, Direct, TUTTI_GENERATOR(direct_gather(out, team, c.request.root, c.shares))},
      {Gather, Tree, TUTTI_GENERATOR(binomial_gather(out, team, c.request.root, c.shares))},
      {AllToAll, Direct, TUTTI_GENERATOR(direct_all_to_all(out, team, *c.parts))},
      {AllToAll, Ring, TUTTI_GENERATOR(ring_all_to_all(out, team, *c.parts))},
  };
  return entries;
}
#undef TUTTI_GENERATOR

const Entry* find(Operation operation, Algorithm algorithm) {
  for (const Entry& entry : registry()) {
    if (entry.operation == operation && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

std::vector<std::size_t> all_to_all_counts(const CollectiveRequest& request) {
  if (!request.counts.empty()) return request.counts;
  const Shares row = even_shares({0, request.elements}, request.ranks, request.align);
  std::vector<std::size_t> counts;
  for (int from = 0; from < request.ranks; ++from) {
    for (const Slice& part : row) counts.push_back(part.size());
  }
  return counts;
}

Context context_of(const CollectiveRequest& request) {
  Context c;
  c.request = request;
  if (request.operation == Operation::AllToAll) {
    c.parts = std::make_shared<Parts>(request.ranks, all_to_all_counts(request));
    return c;
  }
  c.shares = request.counts.empty()
                 ? even_shares({0, request.elements}, request.ranks, request.align)
                 : counted_shares(request.counts);
  c.data = joined(c.shares, 0, request.ranks);
  c.chunks = chunks_for(c.data.size(), request.chunks);
  return c;
}

std::size_t scratch_of(const Context& c) {
  if (c.request.ranks == 1) return 0;
  switch (c.request.algorithm) {
    case Algorithm::Inline:
    case Algorithm::OneShot:
      return c.data.size();
    case Algorithm::Staged:
      return staged_scratch(c.data, c.chunks);
    default:
      return 0;
  }
}

// Trees and halving send two messages to one peer in some rounds. One slot would do, at the price
// of a round.
int slots_of(const CollectiveRequest& request) {
  const bool nested = request.algorithm == Algorithm::Hierarchical;
  const Algorithm algorithm = nested ? request.between : request.algorithm;
  return algorithm == Algorithm::Tree || algorithm == Algorithm::Halving ? 2 : 1;
}

void require_rank(const CollectiveRequest& request, int rank) {
  if (rank >= 0 && rank < request.ranks) return;
  throw std::invalid_argument(fmt::format("rank {} is not one of 0 ... {} of this {}", rank,
                                          request.ranks - 1, name(request.operation)));
}

}  // namespace

bool supports(Operation operation, Algorithm algorithm) {
  return find(operation, algorithm) != nullptr;
}

int chunks_for(std::size_t elements, int asked) {
  constexpr std::size_t kPiece =
      32768;  // elements: large enough to hide a hop, small enough to follow each other
  if (asked > 0) return asked;
  return static_cast<int>(std::clamp<std::size_t>(elements / kPiece, 1, 64));
}

CollectiveSchedule generate(const CollectiveRequest& request) {
  std::string texts;
  for (const core::Problem& problem : check(request)) {
    texts += (texts.empty() ? "" : "\n") + problem.text;
  }
  if (!texts.empty()) throw std::invalid_argument(texts);

  const auto context = std::make_shared<const Context>(context_of(request));
  const Entry& entry = *find(request.operation, request.algorithm);
  CollectiveSchedule schedule;
  schedule.request = request;
  schedule.shares = context->shares;
  schedule.parts = context->parts;
  schedule.scratch = scratch_of(*context);
  schedule.slots = slots_of(request);
  if (entry.generator == nullptr) {
    const auto rotation = std::make_shared<const Rotation>(rotation_of(request));
    schedule.rotation = *rotation;
    schedule.list = [context, rotation](int rank) {
      require_rank(context->request, rank);
      StepBuilder out;
      expand(*rotation, {{0, context->request.ranks}, rank}, context->shares, out);
      return out.take();
    };
    return schedule;
  }
  schedule.list = [context, generator = entry.generator](int rank) {
    require_rank(context->request, rank);
    StepBuilder out;
    const bool alone = context->request.ranks == 1 && context->parts == nullptr;
    if (!alone) generator(out, {{0, context->request.ranks}, rank}, *context);
    return out.take();
  };
  return schedule;
}

CollectiveSchedule with_lists(CollectiveSchedule schedule, StepLists lists) {
  schedule.rotation.reset();
  schedule.list = [shared = std::make_shared<const StepLists>(std::move(lists))](int rank) {
    return shared->at(static_cast<std::size_t>(rank));
  };
  return schedule;
}

std::size_t CollectiveSchedule::data_elements(int rank) const {
  if (parts) return parts->output_elements(rank);
  return joined(shares, 0, request.ranks).end;
}

std::size_t CollectiveSchedule::input_elements(int rank) const {
  return parts ? parts->input_elements(rank) : 0;
}

StepLists CollectiveSchedule::all_lists() const {
  StepLists lists;
  lists.reserve(static_cast<std::size_t>(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) lists.push_back(list(rank));
  return lists;
}

}  // namespace tutti::schedule
