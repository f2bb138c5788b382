// Every generator, judged by the verifier and by an interpreter that takes ranks and entries in
// random order.
#include "schedule/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "schedule/collective_harness.h"
#include "schedule/collective_verify.h"

namespace tutti::schedule {
namespace {

using testing::HasSubstr;

std::string words(const CollectiveRequest& request) {
  std::string text = fmt::format(
      "{} {}, {} ranks, {} elements, root {}, group {}, between {}, chunks {}, align {}",
      name(request.algorithm), name(request.operation), request.ranks, request.elements,
      request.root, request.group, name(request.between), request.chunks, request.align);
  for (const std::size_t count : request.counts) text += fmt::format(" {}", count);
  return text;
}

// All that can be asked for by name, with the registry as the only judge of what there is.
std::vector<CollectiveRequest> kinds() {
  std::vector<CollectiveRequest> result;
  for (const Operation operation : all_operations()) {
    for (const Algorithm algorithm : all_algorithms()) {
      if (!supports(operation, algorithm)) continue;
      result.push_back({.operation = operation, .algorithm = algorithm});
      if (algorithm != Algorithm::Hierarchical || operation != Operation::AllReduce) continue;
      for (const Algorithm between : {Algorithm::Halving, Algorithm::Doubling, Algorithm::Tree,
                                      Algorithm::Chain, Algorithm::Direct}) {
        result.push_back({.operation = operation, .algorithm = algorithm, .between = between});
      }
    }
  }
  return result;
}

bool takes_counts(Operation operation) {
  return operation != Operation::AllReduce && operation != Operation::Broadcast &&
         operation != Operation::Reduce;
}

// A random request of some kind: edges (no elements, fewer than ranks, uneven counts, any root) are
// all likely.
CollectiveRequest random_request(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  static const std::vector<CollectiveRequest> all = kinds();
  CollectiveRequest request =
      all[static_cast<std::size_t>(draw(0, static_cast<int>(all.size()) - 1))];
  request.ranks = draw(1, 17);
  request.elements = static_cast<std::size_t>(draw(0, 2) == 0 ? draw(0, 20) : draw(0, 200));
  request.root = draw(0, request.ranks - 1);
  request.chunks = draw(0, 5);
  request.align = static_cast<std::size_t>(draw(1, 4));
  do {
    request.group = draw(1, request.ranks);
  } while (request.ranks % request.group != 0);
  if (takes_counts(request.operation) && draw(0, 1) == 1) {
    const int size =
        request.operation == Operation::AllToAll ? request.ranks * request.ranks : request.ranks;
    for (int i = 0; i < size; ++i)
      request.counts.push_back(static_cast<std::size_t>(std::max(0, draw(-4, 12))));
  }
  return request;
}

TEST(Collective, EveryKindIsProvenForEveryRankCountAndSize) {
  for (CollectiveRequest request : kinds()) {
    for (request.ranks = 1; request.ranks <= 17; ++request.ranks) {
      for (request.group = 1; request.group <= request.ranks; ++request.group) {
        const bool grouped = request.algorithm == Algorithm::Hierarchical;
        if (request.ranks % request.group != 0 || (!grouped && request.group > 1)) continue;
        request.root = request.ranks / 2;
        for (const std::size_t elements :
             {0, 1, 5, 17, 64}) {  // none, fewer than ranks, one each, uneven
          request.elements = elements;
          request.chunks = elements == 64 ? 3 : 0;
          const CollectiveSchedule schedule = generate(request);
          const CollectiveVerdict verdict = verify_lists(schedule);
          ASSERT_TRUE(verdict.ok())
              << words(request) << ": " << name(verdict.fault) << ": " << verdict.text;
          ASSERT_EQ(verdict.smallest_slots, 1) << words(request);
        }
      }
    }
  }
}

TEST(Collective, RandomRequestsGiveTheOperationsResultInAnyInterleaving) {
  rc::detail::TestParams params;
  params.maxSuccess = 1500;
  const auto result = rc::detail::checkTestable(
      [] {
        std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
        const CollectiveRequest request = random_request(random);
        const CollectiveSchedule schedule = generate(request);
        const harness::Outcome outcome =
            harness::run(schedule, schedule.all_lists(), schedule.slots, random);
        RC_LOG() << words(request) << std::endl;
        RC_ASSERT(!outcome.stuck);
        RC_ASSERT(!outcome.mismatched);
        RC_ASSERT(!outcome.read_unwritten);
        RC_ASSERT(outcome.unread == 0u);
        RC_ASSERT(harness::wrong_result(schedule, outcome.data) == "");
        RC_ASSERT(verify(schedule).ok());
      },
      rc::detail::TestMetadata{}, params);
  EXPECT_TRUE(result.is<rc::detail::SuccessResult>()) << "see the counterexample above";
  if (!result.is<rc::detail::SuccessResult>()) rc::detail::printResultMessage(result, std::cerr);
}

// The bits of an all-reduce, whatever the interleaving: `expected(ranks, element)` spells the
// additions out.
template <class F>
void expect_bits(CollectiveRequest request, F&& expected) {
  std::mt19937 random(7);
  for (request.ranks = 1; request.ranks <= 9; ++request.ranks) {
    request.elements = 23;
    const CollectiveSchedule schedule = generate(request);
    const auto data = harness::run(schedule, schedule.all_lists(), 1, random).data;
    for (int rank = 0; rank < request.ranks; ++rank) {
      for (std::size_t i = 0; i < request.elements; ++i) {
        ASSERT_EQ(data[static_cast<std::size_t>(rank)][i], expected(schedule, i))
            << words(request) << " element " << i;
      }
    }
  }
}

TEST(Collective, SharedMemoryAndChainAddInRankOrder) {
  for (const Algorithm algorithm : {Algorithm::Inline, Algorithm::OneShot, Algorithm::Direct,
                                    Algorithm::Staged, Algorithm::Chain}) {
    expect_bits({.algorithm = algorithm, .chunks = 2},
                [](const CollectiveSchedule& schedule, std::size_t i) {
                  return harness::rank_order_sum(schedule.request.ranks, i);
                });
  }
}

TEST(Collective, RingAddsFromTheRankAfterTheShare) {
  expect_bits({.algorithm = Algorithm::Ring},
              [](const CollectiveSchedule& schedule, std::size_t i) {
                const int ranks = schedule.request.ranks;
                int share = 0;
                while (schedule.shares[static_cast<std::size_t>(share)].end <= i) ++share;
                harness::Value sum = harness::input((share + 1) % ranks, i);
                for (int k = 2; k <= ranks; ++k)
                  sum = harness::sum(sum, harness::input((share + k) % ranks, i));
                return sum;
              });
}

TEST(Collective, HalvingAndDoublingGiveTheSameBits) {
  const auto partners = [](const CollectiveSchedule& schedule, std::size_t i) {
    std::vector<harness::Value> sums;  // extras first, then rounds of partners at half the distance
    for (int rank = 0; rank < schedule.request.ranks; ++rank)
      sums.push_back(harness::input(rank, i));
    std::size_t half = 1;
    while (2 * half <= sums.size()) half *= 2;
    for (; half >= 1; half /= 2) {
      for (std::size_t k = half; k < sums.size(); ++k)
        sums[k - half] = harness::sum(sums[k - half], sums[k]);
      sums.resize(std::min(half, sums.size()));
    }
    return sums.front();
  };
  expect_bits({.algorithm = Algorithm::Halving}, partners);
  expect_bits({.algorithm = Algorithm::Doubling}, partners);
}

TEST(Collective, AlignedSharesBeginAtWholeUnits) {
  const CollectiveSchedule schedule = generate({.ranks = 3, .elements = 21, .align = 4});
  EXPECT_EQ(schedule.shares, (Shares{{0, 8}, {8, 16}, {16, 21}}));
}

TEST(Collective, AListIsMadeForARankOfTheCollectiveOnly) {
  const CollectiveSchedule schedule = generate({.ranks = 4, .elements = 8});
  EXPECT_THROW(schedule.list(4), std::invalid_argument);
  EXPECT_THROW(schedule.list(-1), std::invalid_argument);
}

// What check() says, in one line.
std::string refusal(const CollectiveRequest& request) {
  std::string text;
  for (const core::Problem& problem : check(request)) text += problem.text;
  if (!text.empty()) {
    EXPECT_THROW(generate(request), std::invalid_argument);
  }
  return text;
}

TEST(Collective, RefusesWhatItCannotDoAndSaysWhatItCan) {
  EXPECT_EQ(refusal({.ranks = 0}), "0 ranks: a collective needs at least 1.");
  EXPECT_EQ(refusal({.operation = Operation::Broadcast, .algorithm = Algorithm::Ring}),
            "There is no ring broadcast. Algorithms of broadcast: direct, tree, chain.");
  EXPECT_THAT(refusal({.algorithm = Algorithm::Hierarchical, .ranks = 12, .group = 5}),
              HasSubstr("Set the group to one of 1, 2, 3, 4, 6, 12."));
  EXPECT_THAT(refusal({.algorithm = Algorithm::Hierarchical,
                       .ranks = 4,
                       .group = 2,
                       .between = Algorithm::OneShot}),
              HasSubstr("Use ring, halving, doubling, tree, chain, direct."));
  EXPECT_THAT(
      refusal(
          {.operation = Operation::Gather, .algorithm = Algorithm::Tree, .ranks = 3, .root = 3}),
      HasSubstr("choose one of 0 ... 2"));
  EXPECT_THAT(refusal({.ranks = 2, .counts = {1, 2}}), HasSubstr("takes no counts"));
  EXPECT_THAT(refusal({.operation = Operation::AllGather, .ranks = 3, .counts = {1, 2}}),
              HasSubstr("got 2 counts, it needs 3"));
  EXPECT_THAT(refusal({.ranks = 2, .chunks = -1}), HasSubstr("-1 chunks"));
  EXPECT_THAT(refusal({.ranks = 2, .align = 0}), HasSubstr("Alignment 0"));
}

TEST(Collective, UnknownNamesAreAnsweredWithTheNearest) {
  for (const Algorithm algorithm : all_algorithms())
    EXPECT_EQ(parse_algorithm(name(algorithm)), algorithm);
  for (const Operation operation : all_operations())
    EXPECT_EQ(parse_operation(name(operation)), operation);
  try {
    parse_algorithm("halfing");
    FAIL() << "accepted";
  } catch (const core::ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("\"halfing\" is not a collective algorithm; did you mean halving."));
  }
}

}  // namespace
}  // namespace tutti::schedule
