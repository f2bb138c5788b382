// Closed forms and counts of schedule/collective_cost.h.
#include "schedule/collective_cost.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "schedule/collective_run.h"
#include "schedule/halving.h"

namespace tutti::schedule {
namespace {

int log2_down(int number) { return std::bit_width(static_cast<unsigned>(number)) - 1; }
int log2_up(int number) { return std::bit_width(static_cast<unsigned>(number - 1)); }

// The numbers of the closed forms.
struct Terms {
  int ranks;  // P >= 2
  double n;
  int chunks;  // k
  [[nodiscard]] double share() const { return n / ranks; }
  [[nodiscard]] double others() const { return n - share(); }  // (P-1)/P n
};

CollectiveCost all_reduce(Algorithm algorithm, const Terms& t) {
  const int last = t.ranks - 1;
  const int core = core_size(t.ranks);
  const int extra = t.ranks > core ? 1 : 0;
  const double kept = t.n - t.n / core;  // (p-1)/p n
  switch (algorithm) {
    case Algorithm::Inline:
    case Algorithm::OneShot:
      return {1, last * t.n, last * t.n};
    case Algorithm::Direct:
      return {2, 2 * t.others(), t.others()};
    case Algorithm::Staged:
      return {t.chunks + 1, 2 * t.others(), t.others()};
    case Algorithm::Ring:
      return {2 * last, 2 * t.others(), t.others()};
    case Algorithm::Tree:
      return {2 * log2_down(t.ranks) + t.chunks - 1, std::min(t.ranks, 4) / 2.0 * t.n,
              std::min(t.ranks - 1, 2) / 2.0 * t.n};
    case Algorithm::Halving:
      return {2 * log2_down(core) + 2 * extra, 2 * kept + extra * t.n, kept + extra * t.n};
    case Algorithm::Doubling: {
      const double all = (log2_down(core) + extra) * t.n;
      return {log2_down(core) + 2 * extra, all, all};
    }
    case Algorithm::Chain:
      return {2 * last + t.chunks - 1, t.ranks == 2 ? t.n : 2 * t.n, t.n};
    default:
      return {};
  }
}

// Reduce-scatter and all-gather; `adds`: whether each element that moves is added.
CollectiveCost half_of_all_reduce(Algorithm algorithm, const Terms& t, bool adds) {
  const double added = adds ? t.others() : 0;
  const int core = core_size(t.ranks);
  if (algorithm == Algorithm::Direct) return {2, t.others(), added};
  if (algorithm == Algorithm::Ring) return {t.ranks - 1, t.others(), added};
  if (core == t.ranks) return {log2_down(core), t.others(), added};
  double below =
      0;  // shares of the lower half at each distance, its extras' included: rank 0's are the most
  for (int distance = core / 2; distance >= 1; distance /= 2) {
    below += (distance + std::min(distance, t.ranks - core)) * t.share();
  }
  // An extra sends all it has; rank 0 takes that and halves, or doubles back and sends its extra
  // all but one share.
  const int rounds = log2_down(core) + 2;
  return adds ? CollectiveCost{rounds, t.n, t.n + below}
              : CollectiveCost{rounds, below + t.others(), 0};
}

CollectiveCost hierarchical(const CollectiveRequest& request, const Terms& t) {
  const int groups = t.ranks / request.group;
  const double shard = t.n / request.group;
  const double inside = t.n - shard;  // (L-1)/L n
  const int syncs = request.group > 1 ? 2 : 0;
  if (request.operation == Operation::AllReduce) {
    CollectiveCost between;
    if (groups > 1) between = all_reduce(request.between, {groups, shard, t.chunks});
    return {syncs + between.rounds, 2 * inside + between.moved, inside + between.added};
  }
  const double rail = shard - shard / groups;
  const bool adds = request.operation == Operation::ReduceScatter;
  return {syncs + groups - 1, inside + rail, adds ? inside + rail : 0};
}

// Operations with a root.
CollectiveCost rooted(const CollectiveRequest& request, const Terms& t) {
  const bool direct = request.algorithm == Algorithm::Direct;
  const bool tree = request.algorithm == Algorithm::Tree;
  switch (request.operation) {
    case Operation::Broadcast:
      if (direct) return {2, t.n, 0};
      return {(tree ? log2_down(t.ranks - 1) : t.ranks - 2) + t.chunks, t.n, 0};
    case Operation::Reduce: {
      if (direct) return {2, t.n, t.others()};
      const int detour = request.root == t.ranks - 1 ? 0 : 1;
      return {(tree ? log2_down(t.ranks - 1) : t.ranks - 2 + detour) + t.chunks, t.n, t.n};
    }
    case Operation::Scatter:
      if (direct) return {2, t.share(), 0};
      return {log2_up(t.ranks), t.others(), 0};
    default: {  // gather: the busiest sender has the largest subtree below the root
      if (direct) return {2, t.share(), 0};
      const int widest = (1 << log2_up(t.ranks)) / 2;
      const int subtree = std::max(std::min(widest, t.ranks - widest), widest / 2);
      return {log2_down(t.ranks), subtree * t.share(), 0};
    }
  }
}

}  // namespace

CollectiveCost cost(const CollectiveRequest& request) {
  const std::vector<core::Problem> problems = check(request);
  if (!problems.empty()) throw std::invalid_argument(problems.front().text);
  if (request.ranks == 1) return {};
  if (!request.counts.empty()) return count(generate(request));
  const Terms t{request.ranks, static_cast<double>(request.elements),
                chunks_for(request.elements, request.chunks)};
  if (request.algorithm == Algorithm::Hierarchical) return hierarchical(request, t);
  switch (request.operation) {
    case Operation::AllReduce:
      return all_reduce(request.algorithm, t);
    case Operation::ReduceScatter:
      return half_of_all_reduce(request.algorithm, t, true);
    case Operation::AllGather:
      return half_of_all_reduce(request.algorithm, t, false);
    case Operation::AllToAll: {
      const bool direct = request.algorithm == Algorithm::Direct;
      return {direct ? 2 : t.ranks - 1, t.others(), 0};
    }
    default:
      return rooted(request, t);
  }
}

CollectiveCost count(const CollectiveSchedule& schedule) {
  const StepLists lists = schedule.all_lists();
  CollectiveCost total;
  total.rounds = run(lists, schedule.slots).rounds;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    double moved = 0;
    double added = 0;
    for (const CollectiveStep& step : lists[rank]) {
      const auto size = static_cast<double>(step.slice.size());
      if (step.verb == Verb::Send) moved += size;
      if (step.verb == Verb::RecvAdd) added += size;
      if (step.verb == Verb::ReduceFrom) added += (step.peers.count - 1) * size;
      if (!one_sided(step.verb)) continue;
      for (int i = 0; i < step.peers.count; ++i) {
        if (step.peers.rank(i) != static_cast<int>(rank)) moved += size;
      }
    }
    total.moved = std::max(total.moved, moved);
    total.added = std::max(total.added, added);
  }
  return total;
}

}  // namespace tutti::schedule
