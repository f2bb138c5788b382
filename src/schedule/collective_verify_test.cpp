// What the verifier refuses, in its words; and 10,000 broken schedules on which it must agree with
// brute force.
#include "schedule/collective_verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "schedule/collective_harness.h"

namespace tutti::schedule {
namespace {

using testing::HasSubstr;

// A schedule with one entry changed: by rank and place in its list.
template <class F>
CollectiveVerdict verify_changed(const CollectiveRequest& request, std::size_t rank, F&& change) {
  const CollectiveSchedule schedule = generate(request);
  StepLists lists = schedule.all_lists();
  change(lists[rank]);
  return verify(with_lists(schedule, std::move(lists)));
}

TEST(CollectiveVerify, NamesTheTwoStepsThatWaitForEachOther) {
  const auto one_by_one = [](std::vector<CollectiveStep>& list, bool receive_first) {
    if (receive_first) std::swap(list[0], list[1]);
    for (std::size_t i = 0; i < list.size(); ++i) list[i].step = static_cast<int>(i);
  };
  const CollectiveSchedule schedule =
      generate({.algorithm = Algorithm::Halving, .ranks = 2, .elements = 4});
  StepLists lists = schedule.all_lists();
  for (auto& list : lists) one_by_one(list, true);
  const CollectiveVerdict verdict = verify(with_lists(schedule, lists));
  EXPECT_EQ(verdict.fault, Fault::Deadlock);
  EXPECT_FALSE(verdict.deadlock_free);
  EXPECT_EQ(verdict.smallest_slots, 0);
  EXPECT_EQ(verdict.text,
            "rank 0 waits in step 0 (RecvAdd from 1 of elements [0, 2)) for rank 1, rank 1 waits "
            "in step 0 (RecvAdd from 0 "
            "of elements [2, 4)) for rank 0");
}

TEST(CollectiveVerify, ReportsTheSmallestNumberOfSlotsThatWorks) {
  // Both send three messages before they receive any.
  const CollectiveSchedule schedule =
      generate({.algorithm = Algorithm::Doubling, .ranks = 2, .elements = 3});
  StepLists lists(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 6; ++i) {
      const auto element = static_cast<std::size_t>(i % 3);
      lists[static_cast<std::size_t>(rank)].push_back({i,
                                                       i < 3 ? Verb::Send : Verb::RecvAdd,
                                                       {1 - rank, 1},
                                                       Space::Data,
                                                       {element, element + 1}});
    }
  }
  CollectiveSchedule changed = with_lists(schedule, lists);
  changed.slots = 2;
  EXPECT_EQ(verify(changed).fault, Fault::Deadlock);
  EXPECT_THAT(verify(changed).text, HasSubstr("Send to 1 of elements [2, 3), 2 slots full"));
  EXPECT_EQ(verify(changed).smallest_slots, 3);
  changed.slots = 3;
  EXPECT_TRUE(verify(changed).ok()) << verify(changed).text;
}

TEST(CollectiveVerify, NamesAMessageOfAnotherSizeAndOneThatIsNeverReceived) {
  const CollectiveRequest request{.algorithm = Algorithm::Doubling, .ranks = 2, .elements = 4};
  const CollectiveVerdict size =
      verify_changed(request, 0, [](auto& list) { list[0].slice.end = 3; });
  EXPECT_EQ(size.fault, Fault::Mismatch);
  EXPECT_EQ(size.text,
            "rank 1, step 1 (RecvAdd from 0 of elements [0, 4)) takes 4 elements, but step 0 of "
            "rank 0 sends 3");
  const CollectiveVerdict unread = verify_changed(request, 0, [](auto& list) { list.pop_back(); });
  EXPECT_EQ(unread.fault, Fault::Mismatch);
  EXPECT_EQ(unread.text, "rank 1, step 0 (Send to 0 of elements [0, 4)): rank 0 never receives it");
}

TEST(CollectiveVerify, NamesTheFirstWrongElementAndWhoIsMissingOrDoubled) {
  const CollectiveRequest chain{.algorithm = Algorithm::Chain, .ranks = 3, .elements = 2};
  const CollectiveVerdict missing =
      verify_changed(chain, 1, [](auto& list) { list[0].verb = Verb::Recv; });
  EXPECT_EQ(missing.fault, Fault::Wrong);
  EXPECT_EQ(missing.text, "element 0 of rank 0 ends with 2 + 0: rank 1 is missing");
  const CollectiveVerdict doubled =
      verify_changed(chain, 0, [](auto& list) { list.back().verb = Verb::RecvAdd; });
  EXPECT_EQ(doubled.fault, Fault::Wrong);
  EXPECT_THAT(doubled.text, HasSubstr("rank 0 is in it 2 times instead of 1"));
}

TEST(CollectiveVerify, TellsAnotherOrderOfAdditionsFromAWrongSum) {
  CollectiveSchedule schedule =
      generate({.algorithm = Algorithm::Halving, .ranks = 4, .elements = 8});
  schedule.request.algorithm = Algorithm::Chain;  // promises rank order
  const CollectiveVerdict verdict = verify(schedule);
  EXPECT_EQ(verdict.fault, Fault::Order);
  EXPECT_THAT(verdict.text, HasSubstr("promised is ((1 + 0) + 2) + 3"));
}

TEST(CollectiveVerify, RefusesSharedMemoryWithoutItsSyncs) {
  const CollectiveRequest request{.algorithm = Algorithm::Direct, .ranks = 3, .elements = 6};
  // Lists: Publish, Await, ReduceFrom, StoreTo, Publish, Await.
  const CollectiveVerdict early =
      verify_changed(request, 1, [](auto& list) { list.erase(list.begin() + 1); });
  EXPECT_EQ(early.fault, Fault::Race);
  EXPECT_THAT(early.text, HasSubstr("nothing orders them"));
  const CollectiveVerdict late = verify_changed(request, 1, [](auto& list) { list.pop_back(); });
  EXPECT_EQ(late.fault, Fault::Race);
  EXPECT_THAT(late.text, HasSubstr("rank 1 may end while rank 0"));
  const CollectiveVerdict same_step =
      verify_changed(request, 1, [](auto& list) { list[4].step = list[3].step; });
  EXPECT_EQ(same_step.fault, Fault::Race)
      << "a mark that is published beside the store says nothing about it";
}

TEST(CollectiveVerify, RefusesTwoEntriesOfOneStepThatTouchTheSameElements) {
  const CollectiveRequest request{.algorithm = Algorithm::Doubling, .ranks = 2, .elements = 4};
  const CollectiveVerdict verdict =
      verify_changed(request, 0, [](auto& list) { list[1].step = list[0].step; });
  EXPECT_EQ(verdict.fault, Fault::Race);
}

TEST(CollectiveVerify, RefusesElementsThatNobodyHasWritten) {
  const CollectiveRequest request{.operation = Operation::AllGather,
                                  .algorithm = Algorithm::Halving,
                                  .ranks = 2,
                                  .elements = 4};
  const CollectiveVerdict verdict = verify_changed(request, 0, [](auto& list) {
    list[0].slice = {2, 4};
  });
  EXPECT_EQ(verdict.fault, Fault::Undefined);
  EXPECT_EQ(verdict.text,
            "rank 0, step 0 (Send to 1 of elements [2, 4)) reads elements [2, 4) of rank 0's Data, "
            "which nobody has written");
}

TEST(CollectiveVerify, RefusesListsThatCannotBeRun) {
  const CollectiveRequest request{.algorithm = Algorithm::Doubling, .ranks = 2, .elements = 4};
  const auto fault_of = [&](auto&& change) {
    const CollectiveVerdict verdict = verify_changed(request, 0, change);
    EXPECT_EQ(verdict.fault, Fault::Malformed);
    return verdict.text;
  };
  EXPECT_THAT(fault_of([](auto& list) { list[0].peers.first = 2; }),
              HasSubstr("a peer is no rank"));
  EXPECT_THAT(fault_of([](auto& list) { list[0].peers.first = 0; }),
              HasSubstr("does not send to itself"));
  EXPECT_THAT(fault_of([](auto& list) { list[0].slice.end = 5; }), HasSubstr("beyond the buffer"));
  EXPECT_THAT(fault_of([](auto& list) { std::swap(list[0], list[1]); }),
              HasSubstr("steps go back"));
}

// One change of the kinds that slip into generators: a step moved, dropped, doubled, joined or
// split, a wrong peer or slice.
void break_once(StepLists& lists, std::mt19937& random) {
  const auto draw = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  auto& list = lists[draw(lists.size())];
  if (list.empty()) return;
  const std::size_t i = draw(list.size());
  CollectiveStep& step = list[i];
  switch (draw(8)) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1:
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), CollectiveStep(step));
      break;
    case 2: {
      CollectiveStep& other = list[draw(list.size())];
      std::swap(step, other);
      std::swap(step.step, other.step);
      break;
    }
    case 3:
      step.peers.first = static_cast<int>(draw(lists.size()));
      break;
    case 4:
      step.slice.end = step.slice.begin + draw(step.slice.size() + 1);
      break;
    case 5:  // every entry a step of its own
      for (std::size_t k = 0; k < list.size(); ++k) list[k].step = static_cast<int>(k);
      break;
    case 6: {  // joined with the next step
      if (i + 1 == list.size()) break;
      const int from = list[i + 1].step;
      const int to = step.step;
      for (CollectiveStep& other : list) other.step = other.step == from ? to : other.step;
      break;
    }
    default:
      step.verb = step.verb == Verb::Recv      ? Verb::RecvAdd
                  : step.verb == Verb::RecvAdd ? Verb::Recv
                                               : step.verb;
  }
}

TEST(CollectiveVerify, AgreesWithBruteForceOnTenThousandBrokenSchedules) {
  std::mt19937 random(11);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int judged = 0;
  int deadlocks = 0;
  int passed = 0;
  while (judged < 10'000) {
    CollectiveRequest request;
    request.operation = all_operations()[static_cast<std::size_t>(draw(0, 7))];
    request.algorithm = all_algorithms()[static_cast<std::size_t>(draw(0, 9))];
    if (!supports(request.operation, request.algorithm)) continue;
    request.ranks = draw(2, 6);
    request.elements = static_cast<std::size_t>(draw(0, 12));
    request.root = draw(0, request.ranks - 1);
    request.group = request.ranks % 2 == 0 ? 2 : 1;
    request.chunks = draw(1, 3);
    CollectiveSchedule schedule = generate(request);
    StepLists lists = schedule.all_lists();
    for (int changes = draw(0, 3); changes > 0; --changes) break_once(lists, random);
    schedule = with_lists(schedule, lists);
    schedule.slots = draw(1, 3);
    const CollectiveVerdict verdict = verify(schedule);
    if (verdict.fault == Fault::Malformed) continue;
    ++judged;
    const harness::Outcome outcome = harness::run(schedule, lists, schedule.slots, random);
    ASSERT_EQ(verdict.deadlock_free, !outcome.stuck) << verdict.text;
    for (const int slots : {verdict.smallest_slots - 1, verdict.smallest_slots}) {
      if (slots < 1) continue;
      ASSERT_EQ(harness::run(schedule, lists, slots, random).stuck, slots < verdict.smallest_slots);
    }
    deadlocks += outcome.stuck ? 1 : 0;
    if (!verdict.ok()) continue;
    ++passed;
    ASSERT_FALSE(outcome.mismatched || outcome.unread > 0 || outcome.read_unwritten);
    ASSERT_EQ(harness::wrong_result(schedule, outcome.data), "");
  }
  EXPECT_GT(deadlocks, 500);
  EXPECT_GT(passed, 1000);
}

// The other direction: what brute force sees go wrong in some interleaving, the verifier must
// refuse.
TEST(CollectiveVerify, PassesNothingThatGoesWrongInSomeInterleaving) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 1500; ++trial) {
    const bool direct = trial % 2 == 0;
    CollectiveSchedule schedule =
        generate({.algorithm = direct ? Algorithm::Direct : Algorithm::Staged,
                  .ranks = 3,
                  .elements = 7,
                  .chunks = 3});
    StepLists lists = schedule.all_lists();
    break_once(lists, random);
    schedule = with_lists(schedule, lists);
    const CollectiveVerdict verdict = verify(schedule);
    if (!verdict.ok()) continue;
    for (int run = 0; run < 5; ++run) {
      const harness::Outcome outcome = harness::run(schedule, lists, 1, random);
      ASSERT_FALSE(outcome.stuck);
      ASSERT_EQ(harness::wrong_result(schedule, outcome.data), "") << trial;
    }
  }
}

}  // namespace
}  // namespace tutti::schedule
