// Names of collectives and what can be asked for: every refusal says what would work.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/suggest.h"
#include "schedule/collective.h"

namespace tutti::schedule {
namespace {

constexpr int kMostChunks = 4096;  // pieces are latency: more than that only cost rounds

template <class Word>
std::vector<std::string> names(const std::vector<Word>& words) {
  std::vector<std::string> result;
  for (const Word word : words) result.emplace_back(name(word));
  return result;
}

template <class Word>
Word parse(std::string_view text, std::string_view kind, const std::vector<Word>& words) {
  for (const Word word : words) {
    if (name(word) == text) return word;
  }
  const std::vector<std::string> known = names(words);
  const std::string near = core::nearest(text, known);
  throw core::ConfigError(fmt::format("\"{}\" is not {}{}. Known: {}.", text, kind,
                                      near.empty() ? "" : fmt::format("; did you mean {}", near),
                                      fmt::join(known, ", ")));
}

bool has_root(Operation operation) {
  return operation == Operation::Broadcast || operation == Operation::Reduce ||
         operation == Operation::Scatter || operation == Operation::Gather;
}

// How many counts the operation takes; 0: none, its shares are the engine's own affair.
std::size_t expected_counts(const CollectiveRequest& request) {
  const auto ranks = static_cast<std::size_t>(request.ranks);
  switch (request.operation) {
    case Operation::ReduceScatter:
    case Operation::AllGather:
    case Operation::Scatter:
    case Operation::Gather:
      return ranks;
    case Operation::AllToAll:
      return ranks * ranks;
    default:
      return 0;
  }
}

std::vector<int> divisors(int number) {
  std::vector<int> result;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) result.push_back(i);
  }
  return result;
}

void check_group(const CollectiveRequest& request, std::vector<core::Problem>& problems) {
  if (request.group < 1 || request.ranks % request.group != 0) {
    problems.push_back({fmt::format(
        "Groups of {} do not divide {} ranks: in a hierarchical {} each rank needs a partner of "
        "its own index in every group. Set the group to one of {}.",
        request.group, request.ranks, name(request.operation),
        fmt::join(divisors(request.ranks), ", "))});
  }
  const bool reduces = request.operation == Operation::AllReduce;
  static const std::vector<Algorithm> all = {Algorithm::Ring,     Algorithm::Halving,
                                             Algorithm::Doubling, Algorithm::Tree,
                                             Algorithm::Chain,    Algorithm::Direct};
  const std::vector<Algorithm> allowed = reduces ? all : std::vector{Algorithm::Ring};
  for (const Algorithm word : allowed) {
    if (word == request.between) return;
  }
  problems.push_back({fmt::format("{} cannot run between the groups of a hierarchical {}. Use {}.",
                                  name(request.between), name(request.operation),
                                  fmt::join(names(allowed), ", "))});
}

void check_counts(const CollectiveRequest& request, std::vector<core::Problem>& problems) {
  const std::size_t expected = expected_counts(request);
  if (request.counts.empty() || request.counts.size() == expected) return;
  problems.push_back(
      {expected == 0
           ? fmt::format("{} takes no counts: every rank has all elements. Leave them out.",
                         name(request.operation))
           : fmt::format("{} of {} ranks got {} counts, it needs {}: {}.", name(request.operation),
                         request.ranks, request.counts.size(), expected,
                         request.operation == Operation::AllToAll ? "one per pair of ranks"
                                                                  : "one per rank")});
}

}  // namespace

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::AllReduce:
      return "all-reduce";
    case Operation::ReduceScatter:
      return "reduce-scatter";
    case Operation::AllGather:
      return "all-gather";
    case Operation::Broadcast:
      return "broadcast";
    case Operation::Reduce:
      return "reduce";
    case Operation::Scatter:
      return "scatter";
    case Operation::Gather:
      return "gather";
    case Operation::AllToAll:
      return "all-to-all";
  }
  return "?";
}

std::string_view name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Inline:
      return "inline";
    case Algorithm::OneShot:
      return "one-shot";
    case Algorithm::Direct:
      return "direct";
    case Algorithm::Staged:
      return "staged";
    case Algorithm::Ring:
      return "ring";
    case Algorithm::Tree:
      return "tree";
    case Algorithm::Halving:
      return "halving";
    case Algorithm::Doubling:
      return "doubling";
    case Algorithm::Chain:
      return "chain";
    case Algorithm::Hierarchical:
      return "hierarchical";
  }
  return "?";
}

const std::vector<Operation>& all_operations() {
  using enum Operation;
  static const std::vector<Operation> words = {AllReduce, ReduceScatter, AllGather, Broadcast,
                                               Reduce,    Scatter,       Gather,    AllToAll};
  return words;
}

const std::vector<Algorithm>& all_algorithms() {
  using enum Algorithm;
  static const std::vector<Algorithm> words = {Inline, OneShot, Direct,   Staged, Ring,
                                               Tree,   Halving, Doubling, Chain,  Hierarchical};
  return words;
}

Operation parse_operation(std::string_view text) {
  return parse(text, "a collective", all_operations());
}

Algorithm parse_algorithm(std::string_view text) {
  return parse(text, "a collective algorithm", all_algorithms());
}

std::vector<core::Problem> check(const CollectiveRequest& request) {
  std::vector<core::Problem> problems;
  if (request.ranks < 1) {
    problems.push_back({fmt::format("{} ranks: a collective needs at least 1.", request.ranks)});
    return problems;  // nothing else can be judged
  }
  if (!supports(request.operation, request.algorithm)) {
    std::vector<std::string> known;
    for (const Algorithm other : all_algorithms()) {
      if (supports(request.operation, other)) known.emplace_back(name(other));
    }
    problems.push_back(
        {fmt::format("There is no {} {}. Algorithms of {}: {}.", name(request.algorithm),
                     name(request.operation), name(request.operation), fmt::join(known, ", "))});
  }
  if (has_root(request.operation) && (request.root < 0 || request.root >= request.ranks)) {
    problems.push_back({fmt::format("Root {} is not a rank of this {}: choose one of 0 ... {}.",
                                    request.root, name(request.operation), request.ranks - 1)});
  }
  if (request.chunks < 0 || request.chunks > kMostChunks) {
    problems.push_back({fmt::format("{} chunks: use 1 to {}, or 0 for a number that fits the size.",
                                    request.chunks, kMostChunks)});
  }
  if (request.align == 0)
    problems.push_back({"Alignment 0: shares begin at multiples of 1 element or more."});
  if (request.algorithm == Algorithm::Hierarchical) check_group(request, problems);
  check_counts(request, problems);
  return problems;
}

}  // namespace tutti::schedule
