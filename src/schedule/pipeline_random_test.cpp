// Ten thousand random cases against an independent simulator, and properties that hold for every
// order.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "schedule/pipeline.h"
#include "schedule/pipeline_oracle.h"
#include "schedule/pipeline_simulate.h"
#include "schedule/pipeline_verify.h"

namespace tutti::schedule {
namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int upto(int least, int most) { return std::uniform_int_distribution(least, most)(engine_); }
  double time() {
    return upto(0, 3) == 0 ? upto(0, 4) : std::uniform_real_distribution(0.1, 3.0)(engine_);
  }

 private:
  std::mt19937 engine_;
};

PipelineRequest random_request(Dice& dice) {
  PipelineRequest request;
  request.name = pipeline_names()[dice.upto(0, static_cast<int>(pipeline_names().size()) - 1)];
  request.stages = dice.upto(1, 5);
  request.microbatches = dice.upto(1, 7);
  if (request.name == "interleaved") request.chunks = dice.upto(1, 3);
  PipelineTimes times;
  for (int n = 0; n < pipeline_shape(request).positions(); ++n) {
    times.positions.push_back({dice.time() + 0.01, dice.time(), dice.time()});
  }
  times.transfer = dice.upto(0, 1) == 0 ? 0 : dice.time();
  request.times = times;
  if (request.name == "zb-auto") request.memory = dice.upto(1, 2 * request.stages);
  return request;
}

/// Some neighbours in the lists change places: most results are still complete lists, many wait for
/// each other.
void disturb(PipelineSchedule& schedule, Dice& dice) {
  for (int swaps = dice.upto(1, 6); swaps > 0; --swaps) {
    auto& list = schedule.actions[dice.upto(0, schedule.shape.stages - 1)];
    const int at = dice.upto(0, static_cast<int>(list.size()) - 2);
    std::swap(list[at], list[at + 1]);
  }
}

TEST(PipelineRandom, VerifyAndSimulationAgreeWithTheOracleInTenThousandCases) {
  int finished = 0;
  int stuck = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Dice dice(seed);
    const PipelineRequest request = random_request(dice);
    PipelineSchedule schedule = make_pipeline(request);
    ASSERT_TRUE(verify(schedule, {request.memory}).ok())
        << verify(schedule, {request.memory}).problems.front();
    if (dice.upto(0, 2) > 0) {
      for (int& slots : schedule.slots) slots = slots == 0 ? 0 : dice.upto(1, request.microbatches);
    }
    if (dice.upto(0, 1) == 0) disturb(schedule, dice);
    const Verdict verdict = verify(schedule);
    if (!verdict.ok() && verdict.problems.front().substr(0, 8) != "deadlock") {
      ++refused;  // a wrong list, whatever the slots
      continue;
    }
    const oracle::Ends ends = oracle::sweep(schedule, *request.times);
    ASSERT_EQ(verdict.deadlock_free, oracle::finished(ends));
    ASSERT_EQ(verdict.ok(), oracle::finished(ends));
    if (!verdict.ok()) {
      ++stuck;
      ASSERT_THROW(simulate(schedule, *request.times), std::invalid_argument);
      continue;
    }
    ++finished;
    const double expected = oracle::makespan(schedule, *request.times, ends);
    ASSERT_NEAR(simulate(schedule, *request.times).makespan, expected, 1e-9 * (1 + expected));
  }
  // The cases must be of all sorts, or the comparison proves little.
  EXPECT_GT(finished, 3000);
  EXPECT_GT(stuck, 500);
  EXPECT_GT(refused, 300);
}

TEST(PipelineRandom, TheSmallestSlotsWorkAndOneLessDoesNot) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Dice dice(seed);
    const PipelineRequest request = random_request(dice);
    PipelineSchedule schedule = make_pipeline(request);
    const int smallest = smallest_slots(schedule);
    ASSERT_GE(smallest, 1);
    for (int& slots : schedule.slots) slots = std::min(slots, smallest);
    EXPECT_TRUE(oracle::finished(oracle::sweep(schedule, *request.times)));
    if (smallest == 1) continue;
    for (int& slots : schedule.slots) slots = slots == 0 ? 0 : smallest - 1;
    EXPECT_FALSE(oracle::finished(oracle::sweep(schedule, *request.times)));
  }
}

RC_GTEST_PROP(PipelineProperty, DefaultSlotsNeverDelayEvenStages, ()) {
  PipelineRequest request;
  request.name = *rc::gen::elementOf(pipeline_names());
  request.stages = *rc::gen::inRange(1, 9);
  request.microbatches = *rc::gen::inRange(1, 40);
  const PipelineSchedule schedule = make_pipeline(request);
  const PipelineTimes times = even_times(schedule.shape, {2, 2, 1}, 0.25);
  const double with_slots = simulate(schedule, times).makespan;
  PipelineSchedule roomy = schedule;
  roomy.slots = unlimited_slots(schedule.shape);
  RC_ASSERT(with_slots == simulate(roomy, times).makespan);
}

RC_GTEST_PROP(PipelineProperty, ZbAutoIsNeverWorseThanTheHandMadeOrdersThatFit, ()) {
  const int stages = *rc::gen::inRange(1, 9);
  const int microbatches = *rc::gen::inRange(1, 40);
  PipelineRequest request{"zb-auto", stages, microbatches, 0, {}, {}};
  const double forward = *rc::gen::inRange(1, 20);
  const double weight = *rc::gen::inRange(1, 20);
  request.times =
      even_times(pipeline_shape(request), {forward, 10, weight}, *rc::gen::inRange(0, 4));
  request.memory = stages;
  const double found = simulate(make_pipeline(request), *request.times).max_stage_span;
  request.name = "zb-h1";
  RC_ASSERT(found <= simulate(make_pipeline(request), *request.times).max_stage_span * (1 + 1e-9));
}

// Uneven stages and transfers: what zero-bubble orders are slower at elsewhere.
RC_GTEST_PROP(PipelineProperty, ZbAutoIsNeverSlowerThan1F1BOnUnevenStages, ()) {
  const int stages = *rc::gen::inRange(1, 9);
  PipelineRequest request{"zb-auto", stages, *rc::gen::inRange(stages, 4 * stages + 1)};
  std::vector<ActionTimes> times;
  for (int stage = 0; stage < stages; ++stage) {
    times.push_back({*rc::gen::inRange(5, 15) / 10.0, *rc::gen::inRange(5, 15) / 10.0,
                     *rc::gen::inRange(2, 15) / 10.0});
  }
  request.times = stage_times(pipeline_shape(request), times, *rc::gen::inRange(0, 4) / 10.0);
  request.memory = stages;
  const double found = simulate(make_pipeline(request), *request.times).max_stage_span;
  request.name = "1f1b";
  RC_ASSERT(found <= simulate(make_pipeline(request), *request.times).max_stage_span * (1 + 1e-9));
}

RC_GTEST_PROP(PipelineProperty, ZbAutoKeepsItsMemoryLimit, ()) {
  PipelineRequest request{"zb-auto", *rc::gen::inRange(1, 9), *rc::gen::inRange(1, 30), 0, {}, {}};
  request.memory = *rc::gen::inRange(2, 40) / 2.0;
  const PipelineSchedule schedule = make_pipeline(request);
  RC_ASSERT(verify(schedule, {request.memory}).ok());
  RC_ASSERT(peak_activations(schedule) <= *request.memory + 1e-9);
}

}  // namespace
}  // namespace tutti::schedule
