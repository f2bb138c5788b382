// Sums and promises of schedule/sums.h.
#include "schedule/sums.h"

#include <algorithm>

#include "schedule/halving.h"
#include "schedule/tree.h"

namespace tutti::schedule {
namespace {

std::vector<int> own_values(const Sums& sums, int ranks) {
  std::vector<int> values;
  for (int rank = 0; rank < ranks; ++rank) values.push_back(sums.own(rank));
  return values;
}

// Share k is added from member k + 1 on, round to member k.
std::vector<SummedSlice> ring_sums(Sums& sums, const std::vector<int>& values,
                                   const Shares& shares) {
  std::vector<SummedSlice> result;
  for (std::size_t share = 0; share < shares.size(); ++share) {
    std::vector<int> turned = values;
    const std::size_t first = (share + 1) % values.size();
    std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(first), turned.end());
    result.push_back({shares[share], sums.in_order(turned)});
  }
  return result;
}

// The sum of members c, c + modulus, c + 2 modulus, ...: split by the next bit until one core
// member is left, with its extra.
int split_by_bits(Sums& sums, const std::vector<int>& values, int core, int c, int modulus) {
  if (modulus < core) {
    const int low = split_by_bits(sums, values, core, c, 2 * modulus);
    return sums.add(low, split_by_bits(sums, values, core, c + modulus, 2 * modulus));
  }
  const auto extra = static_cast<std::size_t>(c + core);
  const int own = values[static_cast<std::size_t>(c)];
  return extra < values.size() ? sums.add(own, values[extra]) : own;
}

int halving_sum(Sums& sums, const std::vector<int>& values) {
  return split_by_bits(sums, values, core_size(static_cast<int>(values.size())), 0, 1);
}

// ((own + first child's) + second child's); values by member.
int tree_sum(Sums& sums, const std::vector<int>& values, const BinaryTree& tree, int member) {
  const BinaryTree::Node& node = tree.nodes[static_cast<std::size_t>(member)];
  int sum = values[static_cast<std::size_t>(member)];
  for (const int child : node.children) {
    if (child >= 0) sum = sums.add(sum, tree_sum(sums, values, tree, child));
  }
  return sum;
}

std::vector<SummedSlice> tree_sums(Sums& sums, const std::vector<int>& values, Slice data) {
  const auto trees = double_tree(static_cast<int>(values.size()));
  const Shares halves = even_shares(data, 2);
  return {{halves[0], tree_sum(sums, values, trees[0], trees[0].root)},
          {halves[1], tree_sum(sums, values, trees[1], trees[1].root)}};
}

std::vector<SummedSlice> rooted_tree_sums(Sums& sums, int ranks, int root, Slice data) {
  std::vector<int> others;
  for (int member = 0; member < ranks - 1; ++member) {
    others.push_back(sums.own(after_root(member, root, ranks)));
  }
  std::vector<SummedSlice> result = tree_sums(sums, others, data);
  for (SummedSlice& half : result) half.sum = sums.add(sums.own(root), half.sum);
  return result;
}

// What an all-reduce of `values` promises for `data`.
std::vector<SummedSlice> all_reduce_sums(Sums& sums, Algorithm algorithm,
                                         const std::vector<int>& values, Slice data) {
  switch (algorithm) {
    case Algorithm::Ring:
      return ring_sums(sums, values, even_shares(data, static_cast<int>(values.size())));
    case Algorithm::Halving:
    case Algorithm::Doubling:
      return {{data, halving_sum(sums, values)}};
    case Algorithm::Tree:
      return tree_sums(sums, values, data);
    default:
      return {{data, sums.in_order(values)}};  // rank order
  }
}

// Sums of the groups, rank order inside.
std::vector<int> group_sums(Sums& sums, int ranks, int group) {
  std::vector<int> result;
  for (int first = 0; first < ranks; first += group) {
    std::vector<int> members;
    for (int i = 0; i < group; ++i) members.push_back(sums.own(first + i));
    result.push_back(sums.in_order(members));
  }
  return result;
}

std::vector<SummedSlice> hierarchical_sums(Sums& sums, const CollectiveSchedule& schedule,
                                           Slice data) {
  const CollectiveRequest& request = schedule.request;
  const std::vector<int> groups = group_sums(sums, request.ranks, request.group);
  std::vector<SummedSlice> result;
  if (request.operation == Operation::AllReduce) {
    for (const Slice& shard : even_shares(data, request.group, request.align)) {
      for (const SummedSlice& part : all_reduce_sums(sums, request.between, groups, shard)) {
        result.push_back(part);
      }
    }
    return result;
  }
  Shares rail_share(groups.size());  // reduce-scatter: the share of rank r is that of its group in
                                     // a ring over the rail
  std::vector<SummedSlice> by_group = ring_sums(sums, groups, rail_share);
  for (int rank = 0; rank < request.ranks; ++rank) {
    result.push_back({schedule.shares[static_cast<std::size_t>(rank)],
                      by_group[static_cast<std::size_t>(rank / request.group)].sum});
  }
  return result;
}

}  // namespace

int Sums::add(int a, int b) {
  const auto [low, high] = std::minmax(a, b);
  const auto key = static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high);
  const auto [entry, is_new] = known_.try_emplace(key, ranks_ + static_cast<int>(terms_.size()));
  if (is_new) terms_.emplace_back(low, high);
  return entry->second;
}

int Sums::in_order(const std::vector<int>& values) {
  int sum = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) sum = add(sum, values[i]);
  return sum;
}

std::vector<int> Sums::counts(int sum) const {
  // Terms are older than their sum, so one pass from the newest to the oldest meets every sum after
  // all its uses.
  std::vector<int> uses(static_cast<std::size_t>(std::max(sum + 1, ranks_)));
  if (sum != kNothing) uses[static_cast<std::size_t>(sum)] = 1;
  for (int i = sum; i >= ranks_; --i) {
    const auto [a, b] = terms(i);
    uses[static_cast<std::size_t>(a)] += uses[static_cast<std::size_t>(i)];
    uses[static_cast<std::size_t>(b)] += uses[static_cast<std::size_t>(i)];
  }
  uses.resize(static_cast<std::size_t>(ranks_));
  return uses;
}

void Sums::write(int sum, std::string& out) const {
  constexpr std::size_t kLongest = 120;
  if (out.size() > kLongest) return;
  if (sum < ranks_) {
    out += sum == kNothing ? "nothing" : std::to_string(sum);
    return;
  }
  const auto [a, b] = terms(sum);
  const auto write_term = [&](int term) {
    if (term >= ranks_) out += '(';
    write(term, out);
    if (term >= ranks_) out += ')';
  };
  write_term(b);  // the newer one, which is the longer one where a value is added to a sum
  out += " + ";
  write_term(a);
}

std::string Sums::text(int sum) const {
  std::string out;
  write(sum, out);
  constexpr std::size_t kLongest = 120;
  if (out.size() > kLongest) out = out.substr(0, kLongest) + " ...";
  return out;
}

std::vector<SummedSlice> promised_sums(const CollectiveSchedule& schedule, Sums& sums) {
  const CollectiveRequest& request = schedule.request;
  const Slice data{0, schedule.data_elements(0)};
  if (request.algorithm == Algorithm::Hierarchical) return hierarchical_sums(sums, schedule, data);
  if (request.operation == Operation::Reduce && request.algorithm == Algorithm::Tree &&
      request.ranks > 1) {
    return rooted_tree_sums(sums, request.ranks, request.root, data);
  }
  const std::vector<int> values = own_values(sums, request.ranks);
  if (request.algorithm == Algorithm::Ring) return ring_sums(sums, values, schedule.shares);
  return all_reduce_sums(sums, request.algorithm, values, data);
}

}  // namespace tutti::schedule
