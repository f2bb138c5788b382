// One rotation stands for all lists: proven the same way, whole and broken.
#include "schedule/rotation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "schedule/collective_verify.h"
#include "schedule/ring.h"
#include "schedule/rotation_verify.h"

namespace tutti::schedule {
namespace {

StepLists expanded(const Rotation& rotation, int ranks, const Shares& shares) {
  StepLists lists;
  for (int rank = 0; rank < ranks; ++rank) {
    StepBuilder out;
    expand(rotation, {{0, ranks}, rank}, shares, out);
    lists.push_back(out.take());
  }
  return lists;
}

Rotation ring(Operation operation, int ranks) {
  if (operation == Operation::AllReduce) return ring_all_reduce(ranks);
  return operation == Operation::AllGather ? ring_all_gather(ranks) : ring_reduce_scatter(ranks);
}

TEST(Rotation, ThePartThatARankPlaysIsRankZerosTurned) {
  const CollectiveSchedule schedule = generate({.ranks = 3, .elements = 6});
  const std::vector<CollectiveStep> wanted = {
      {0, Verb::Send, {2, 1}, Space::Data, {0, 2}}, {0, Verb::RecvAdd, {0, 1}, Space::Data, {4, 6}},
      {1, Verb::Send, {2, 1}, Space::Data, {4, 6}}, {1, Verb::RecvAdd, {0, 1}, Space::Data, {2, 4}},
      {2, Verb::Send, {2, 1}, Space::Data, {2, 4}}, {2, Verb::Recv, {0, 1}, Space::Data, {0, 2}},
      {3, Verb::Send, {2, 1}, Space::Data, {0, 2}}, {3, Verb::Recv, {0, 1}, Space::Data, {4, 6}}};
  EXPECT_EQ(schedule.list(1), wanted);
}

// Broken at random in one place, a rotation and its expansion must be judged alike.
TEST(Rotation, BrokenRotationsAreJudgedLikeTheirExpansions) {
  std::mt19937 random(3);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const int ranks = draw(2, 7);
    const Operation operation =
        std::vector{Operation::AllReduce, Operation::AllGather,
                    Operation::ReduceScatter}[static_cast<std::size_t>(draw(0, 2))];
    CollectiveSchedule schedule = generate(
        {.operation = operation, .ranks = ranks, .elements = static_cast<std::size_t>(2 * ranks)});
    schedule.slots = draw(1, 2);
    Rotation rotation = ring(operation, ranks);
    RotatedStep& entry =
        rotation[static_cast<std::size_t>(draw(0, static_cast<int>(rotation.size()) - 1))];
    switch (draw(0, 4)) {
      case 0:
        entry.share = draw(0, ranks - 1);
        break;
      case 1:
        entry.peer = draw(1, ranks - 1);
        break;
      case 2:
        entry.verb = std::vector{Verb::Send, Verb::Recv,
                                 Verb::RecvAdd}[static_cast<std::size_t>(draw(0, 2))];
        break;
      case 3:
        std::swap(entry, rotation.back()), std::swap(entry.step, rotation.back().step);
        break;
      default:  // one thing at a time
        for (std::size_t i = 0; i < rotation.size(); ++i) rotation[i].step = static_cast<int>(i);
        if (draw(0, 1) == 0)
          std::swap(rotation[0].verb, rotation[1].verb),
              std::swap(rotation[0].peer, rotation[1].peer);
    }
    const CollectiveVerdict short_form =
        verify_rotation(rotation, operation, ranks, schedule.slots);
    const CollectiveVerdict long_form =
        verify_lists(with_lists(schedule, expanded(rotation, ranks, schedule.shares)));
    ASSERT_EQ(short_form.ok(), long_form.ok())
        << trial << ": " << short_form.text << " / " << long_form.text;
    ASSERT_EQ(short_form.deadlock_free, long_form.deadlock_free) << trial;
    ASSERT_EQ(short_form.smallest_slots, long_form.smallest_slots) << trial;
    refused += short_form.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 2000) << "the trial must break something";
}

TEST(Rotation, RanksThatAllReceiveFirstAreNamed) {
  Rotation rotation = ring_all_gather(3);
  for (std::size_t i = 0; i < rotation.size(); ++i) rotation[i].step = static_cast<int>(i);
  std::swap(rotation[0], rotation[1]);
  std::swap(rotation[0].step, rotation[1].step);
  const CollectiveVerdict verdict = verify_rotation(rotation, Operation::AllGather, 3, 1);
  EXPECT_EQ(verdict.fault, Fault::Deadlock);
  EXPECT_EQ(verdict.smallest_slots, 0);
  EXPECT_EQ(verdict.text,
            "rank 0 waits in step 0 (Recv from rank 2) for rank 2, which waits in its step 0 for "
            "rank 1, and so on round "
            "the ring");
}

TEST(Rotation, ARingOf4096RanksIsGeneratedAndProvenWithinASecond) {
  const auto start = std::chrono::steady_clock::now();
  const CollectiveSchedule schedule = generate({.ranks = 4096, .elements = 1 << 24});
  const CollectiveVerdict verdict = verify(schedule);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(verdict.ok()) << verdict.text;
  EXPECT_EQ(schedule.list(4095).size(), 2u * 2 * 4095);
  EXPECT_LE(seconds.count(), 1.0);
}

}  // namespace
}  // namespace tutti::schedule
