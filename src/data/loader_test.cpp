// The order of training: every sample once per epoch, whoever asks for it and however often the run
// stops.
#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "core/error.h"
#include "data/test_files.h"

namespace tutti::data {
namespace {

using testing::HasSubstr;
using testing_files::counting;
using testing_files::error_of;
using testing_files::write_tokens;

TEST(SampleAt, ShowsEverySampleOncePerEpochInAnOrderOfItsOwn) {
  constexpr std::uint64_t kSamples = 97;
  std::set<std::vector<std::uint64_t>> orders;
  for (const std::uint64_t seed : {1u, 2u}) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::uint64_t> order;
      for (std::uint64_t i = 0; i < kSamples; ++i)
        order.push_back(sample_at(epoch * kSamples + i, kSamples, seed));
      EXPECT_EQ(std::set(order.begin(), order.end()).size(), kSamples);
      EXPECT_LT(*std::max_element(order.begin(), order.end()), kSamples);
      orders.insert(order);
    }
  }
  EXPECT_EQ(orders.size(), 6u);
  EXPECT_THROW(sample_at(0, 0, 1), std::invalid_argument);
}

TEST(BatchPositions, AreTheFormulaOfTheirHeader) {
  EXPECT_THAT(batch_positions(1000, {.micro = 2, .dp = 3, .global = 12}, 1, 1),
              testing::ElementsAre(1008, 1009));
}

TEST(BatchPositions, CoverTheStepWhateverTheNumberOfRanks) {
  for (const int dp : {1, 2, 3, 4, 6, 12}) {
    for (const int micro : {1, 2, 3}) {
      if (12 % (dp * micro) != 0) continue;
      const BatchShape shape = {.micro = micro, .dp = dp, .global = 12};
      std::multiset<std::uint64_t> covered, expected;
      for (int rank = 0; rank < dp; ++rank) {
        for (int m = 0; m < shape.num_micro_batches(); ++m) {
          const auto positions = batch_positions(24, shape, rank, m);
          covered.insert(positions.begin(), positions.end());
        }
      }
      for (std::uint64_t p = 24; p < 36; ++p) expected.insert(p);
      EXPECT_EQ(covered, expected) << "dp " << dp << ", micro " << micro;
    }
  }
}

TEST(BatchPositions, RefuseWhatDoesNotFit) {
  EXPECT_THROW(batch_positions(0, {.micro = 2, .dp = 3, .global = 13}, 0, 0),
               std::invalid_argument);
  EXPECT_THROW(batch_positions(0, {.micro = 0, .dp = 3, .global = 12}, 0, 0),
               std::invalid_argument);
  EXPECT_THROW(batch_positions(0, {.micro = 2, .dp = 3, .global = 12}, 3, 0),
               std::invalid_argument);
  EXPECT_THROW(batch_positions(0, {.micro = 2, .dp = 3, .global = 12}, -1, 0),
               std::invalid_argument);
  EXPECT_THROW(batch_positions(0, {.micro = 2, .dp = 3, .global = 12}, 0, 2),
               std::invalid_argument);
}

class LoaderTest : public testing_files::InFolder {
 protected:
  /// A corpus of `samples` samples of 4 tokens; sample k begins with token 4 k.
  std::shared_ptr<const Corpus> corpus(std::size_t samples) {
    write_tokens(path("t"), counting({samples * 4 + 1}));
    return std::make_shared<const Corpus>(
        DataOptions{.train = {path("t")}, .valid = 0, .sequence = 4});
  }

  /// Counts the samples that `ranks` loaders give in `steps` steps from `first` on; returns the
  /// counter behind them.
  static std::uint64_t audit(const std::shared_ptr<const Corpus>& corpus, LoaderOptions options,
                             int steps, std::map<std::int64_t, int>& times) {
    for (options.rank = 0; options.rank < options.shape.dp; ++options.rank) {
      Loader loader(corpus, options);
      for (int step = 0; step < steps; ++step) {
        const auto batch = loader.next();
        if (!batch) throw std::runtime_error("the loader ended");
        for (const MicroBatch& micro : batch->micro_batches) {
          for (int row = 0; row < micro.rows; ++row)
            ++times[micro.inputs[static_cast<std::size_t>(row) * 4] / 4];
        }
      }
    }
    return options.first_sample + static_cast<std::uint64_t>(steps * options.shape.global);
  }
};

TEST_F(LoaderTest, ARunThatStopsAndResumesAtAnotherSizeShowsEverySampleOncePerEpoch) {
  const auto data = corpus(60);  // epochs of 5 steps
  std::map<std::int64_t, int> times;
  std::uint64_t at =
      audit(data, {.seed = 5, .shape = {.micro = 2, .dp = 2, .global = 12}}, 2, times);
  for (const auto& [sample, count] : times) EXPECT_EQ(count, 1) << sample;
  EXPECT_EQ(times.size(), 24u);
  at = audit(data, {.seed = 5, .shape = {.micro = 1, .dp = 3, .global = 12}, .first_sample = at}, 2,
             times);
  at = audit(data, {.seed = 5, .shape = {.micro = 12, .dp = 1, .global = 12}, .first_sample = at},
             1, times);
  EXPECT_EQ(times.size(), 60u);
  for (const auto& [sample, count] : times) EXPECT_EQ(count, 1) << sample;
  at = audit(data, {.seed = 5, .shape = {.micro = 1, .dp = 4, .global = 12}, .first_sample = at},
             10, times);
  for (const auto& [sample, count] : times) EXPECT_EQ(count, 3) << sample << " after three epochs";
  EXPECT_EQ(at, 180u);
}

TEST_F(LoaderTest, EpochsThatNoBatchDividesRunOnInTheMiddleOfAStep) {
  const auto data = corpus(10);
  std::map<std::int64_t, int> times;
  audit(data, {.shape = {.micro = 2, .dp = 2, .global = 4}}, 5, times);  // 20 samples: two epochs
  EXPECT_EQ(times.size(), 10u);
  for (const auto& [sample, count] : times) EXPECT_EQ(count, 2) << sample;
}

TEST_F(LoaderTest, AResumedRunGivesTheBatchesOfTheUninterruptedOne) {
  const auto data = corpus(30);
  const LoaderOptions options = {.seed = 9, .shape = {.micro = 2, .dp = 2, .global = 8}, .rank = 1};
  Loader whole(data, options);
  for (int step = 0; step < 6; ++step) {
    const auto expected = whole.next();
    LoaderOptions resumed = options;
    resumed.first_sample = static_cast<std::uint64_t>(step) * 8;
    const auto got = Loader(data, resumed).next();
    ASSERT_TRUE(expected && got);
    EXPECT_EQ(got->first_sample, expected->first_sample);
    ASSERT_EQ(got->micro_batches.size(), 2u);
    for (std::size_t m = 0; m < 2; ++m) {
      EXPECT_EQ(got->micro_batches[m].inputs, expected->micro_batches[m].inputs);
      EXPECT_EQ(got->micro_batches[m].targets, expected->micro_batches[m].targets);
    }
  }
}

TEST_F(LoaderTest, CountsTheTokensOfTheRankAndOfAllRanks) {
  const auto data = corpus(30);
  const auto batch = Loader(data, {.shape = {.micro = 2, .dp = 3, .global = 12}}).next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->tokens, 4 * 4);
  EXPECT_EQ(batch->global_tokens, 12 * 4);
}

TEST_F(LoaderTest, EndsBeforeTheStepThatWouldLeaveTheLastEpoch) {
  for (const auto& [samples, steps] :
       std::map<std::size_t, int>{{10, 7}, {12, 9}}) {  // of 30; of 36: none left over
    const auto data = corpus(samples);
    Loader loader(data, {.shape = {.micro = 4, .dp = 1, .global = 4}, .epochs = 3});
    for (int step = 0; step < steps; ++step) EXPECT_TRUE(loader.next()) << step;
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
  }
}

TEST_F(LoaderTest, AnErrorOfTheThreadSurfacesInNextAgainAndAgain) {
  write_tokens(path("t"), counting({41}), 50);
  std::string content = testing_files::read(path("t"));
  content[128 + 20] = 60;  // outside the vocabulary
  testing_files::write(path("t"), content);
  const auto data =
      std::make_shared<const Corpus>(DataOptions{.train = {path("t")}, .valid = 0, .sequence = 4});
  Loader loader(data, {.shape = {.micro = 10, .dp = 1, .global = 10}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(error_of<core::RunError>([&] { loader.next(); }),
                HasSubstr("outside the vocabulary"));
  }
}

TEST_F(LoaderTest, DiesAtAnyMoment) {
  const auto data = corpus(100);
  for (int taken = 0; taken < 50; ++taken) {
    Loader loader(data, {.shape = {.micro = 4, .dp = 1, .global = 4}});
    for (int i = 0; i < taken % 5; ++i) loader.next();
  }
}

TEST_F(LoaderTest, TracesTheBatchesItMakes) {
  core::Trace trace(0);
  trace.set_on(true);
  {
    Loader loader(corpus(10), {.shape = {.micro = 4, .dp = 1, .global = 4}}, &trace);
    loader.next();
  }
  const auto events = trace.take();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].lane, "loader");
}

TEST_F(LoaderTest, RefusesAShapeThatDoesNotFitAtOnce) {
  const auto data = corpus(10);
  EXPECT_THROW(Loader(data, {.shape = {.micro = 3, .dp = 1, .global = 4}}), std::invalid_argument);
  EXPECT_THROW(Loader(data, {.shape = {.micro = 4, .dp = 1, .global = 4}, .rank = 1}),
               std::invalid_argument);
  EXPECT_THROW(Loader(corpus(0), {.shape = {.micro = 1, .dp = 1, .global = 1}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace tutti::data
