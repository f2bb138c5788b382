// Which tokens a run sees, on files small enough to count by hand.
#include "data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "core/error.h"
#include "data/batch.h"
#include "data/test_files.h"

namespace tutti::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_files::counting;
using testing_files::error_of;
using testing_files::write_tokens;

using Ids = std::vector<std::int64_t>;

class CorpusTest : public testing_files::InFolder {
 protected:
  static Ids sample(const Corpus& corpus, std::uint64_t index) {
    Ids out(static_cast<std::size_t>(corpus.sequence()) + 1);
    corpus.sample(index, out);
    return out;
  }
  static Ids window(const Corpus& corpus, std::uint64_t index) {
    Ids out(static_cast<std::size_t>(corpus.sequence()) + 1);
    out.resize(corpus.valid_window(index, out));
    return out;
  }
};

TEST_F(CorpusTest, SamplesRunThroughTheDocumentsWithoutTheirHeldOutEnds) {
  write_tokens(path("t"), counting({10, 5, 7}));  // held out with 0.3: 3, 1, 2 tokens
  const Corpus corpus({.train = {path("t")}, .valid = 0.3, .sequence = 4});
  EXPECT_EQ(corpus.num_train_tokens(), 16u);  // 0..6 10..13 15..19
  EXPECT_EQ(corpus.num_valid_tokens(), 6u);   // 7 8 9, 14, 20 21
  ASSERT_EQ(corpus.num_samples(), 3u);        // (16 - 1) / 4
  EXPECT_THAT(sample(corpus, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(sample(corpus, 1), ElementsAre(4, 5, 6, 10, 11));
  EXPECT_THAT(sample(corpus, 2), ElementsAre(11, 12, 13, 15, 16));
  EXPECT_EQ(corpus.num_valid_windows(), 2u);  // one token alone predicts nothing
  EXPECT_THAT(window(corpus, 0), ElementsAre(7, 8, 9));
  EXPECT_THAT(window(corpus, 1), ElementsAre(20, 21));
  EXPECT_THROW(sample(corpus, 3), std::invalid_argument);
  EXPECT_THROW(window(corpus, 2), std::invalid_argument);
}

TEST_F(CorpusTest, ASampleNeedsItsLastTargetToo) {
  for (const auto& [tokens, samples] :
       std::map<std::size_t, std::uint64_t>{{1, 0}, {4, 0}, {5, 1}, {8, 1}, {9, 2}}) {
    write_tokens(path("t"), counting({tokens}));
    EXPECT_EQ(Corpus({.train = {path("t")}, .valid = 0, .sequence = 4}).num_samples(), samples)
        << tokens << " tokens";
  }
}

TEST_F(CorpusTest, HoldsOutTheFloorOfTheShare) {
  // Length, share, held out; 0.29 * 100 is 28.999999999999996 in fp64.
  const std::vector<std::tuple<std::size_t, double, std::uint64_t>> rows = {
      {100, 0.29, 29}, {100, 0.05, 5}, {99, 0.05, 4}, {19, 0.05, 0},
      {20, 0.05, 1},   {10, 0.0, 0},   {10, 0.99, 9}};
  for (const auto& [length, share, held_out] : rows) {
    write_tokens(path("t"), counting({length}));
    const Corpus corpus({.train = {path("t")}, .valid = share, .sequence = 4});
    EXPECT_EQ(corpus.num_valid_tokens(), held_out) << length << " x " << share;
    EXPECT_EQ(corpus.num_train_tokens(), length - held_out);
  }
}

TEST_F(CorpusTest, ValidationPredictsEveryHeldOutTokenButTheFirstOfItsDocumentOnce) {
  for (const std::size_t held_out : {1u, 2u, 3u, 4u, 5u, 6u, 8u, 9u, 10u, 21u}) {
    write_tokens(path("t"), counting({2 * held_out, 2 * held_out}));
    const Corpus corpus({.train = {path("t")}, .valid = 0.5, .sequence = 4});
    std::multiset<std::int64_t> predicted, expected;
    for (std::uint64_t w = 0; w < corpus.num_valid_windows(); ++w) {
      const Ids ids = window(corpus, w);
      ASSERT_GE(ids.size(), 2u);
      predicted.insert(ids.begin() + 1, ids.end());
      for (std::size_t i = 1; i < ids.size(); ++i)
        ASSERT_EQ(ids[i], ids[i - 1] + 1) << "a gap in a window";
    }
    for (const std::size_t document : {0u, 1u}) {
      for (std::size_t i = 1; i < held_out; ++i) {
        expected.insert(static_cast<std::int64_t>(2 * held_out * document + held_out + i));
      }
    }
    EXPECT_EQ(predicted, expected) << held_out << " tokens";
  }
}

TEST_F(CorpusTest, AValidationFileOfItsOwnLeavesTheTrainingFilesWhole) {
  write_tokens(path("t"), counting({10}));
  write_tokens(path("v"), counting({5, 3}, 100));
  const Corpus corpus({.train = {path("t")}, .valid = 0.5, .valid_file = path("v"), .sequence = 4});
  EXPECT_EQ(corpus.num_train_tokens(), 10u);
  EXPECT_EQ(corpus.num_valid_windows(), 2u);
  EXPECT_THAT(window(corpus, 0), ElementsAre(100, 101, 102, 103, 104));
  EXPECT_THAT(window(corpus, 1), ElementsAre(105, 106, 107));
}

TEST_F(CorpusTest, FilesWithoutWeightsAreOneStream) {
  write_tokens(path("a"), counting({6}));
  write_tokens(path("b"), counting({6}, 100));
  const Corpus corpus({.train = {path("a"), path("b")}, .valid = 0, .sequence = 4});
  ASSERT_EQ(corpus.num_samples(), 2u);
  EXPECT_THAT(sample(corpus, 1), ElementsAre(4, 5, 100, 101, 102));
}

TEST_F(CorpusTest, WeightsSetTheProportionsAndLoseNoSample) {
  write_tokens(path("a"), counting({31}));        // 10 samples of 3
  write_tokens(path("b"), counting({13}, 1000));  // 4 samples
  const Corpus corpus(
      {.train = {path("a"), path("b")}, .weights = {1, 2}, .valid = 0, .sequence = 3});
  ASSERT_EQ(corpus.num_samples(), 30u);  // 10 of a, 20 of b
  std::map<std::int64_t, int> times;
  for (std::uint64_t k = 0; k < corpus.num_samples(); ++k) ++times[sample(corpus, k)[0]];
  EXPECT_EQ(times.size(), 14u);
  for (const auto& [first, count] : times) EXPECT_EQ(count, first < 1000 ? 1 : 5) << first;
}

TEST_F(CorpusTest, RefusesFilesOfDifferentTokenizers) {
  write_tokens(path("a"), counting({10}), 65536, "one");
  write_tokens(path("b"), counting({10}), 65536, "two");
  EXPECT_THAT(error_of<core::ConfigError>([&] {
                Corpus({.train = {path("a"), path("b")}, .valid = 0, .sequence = 4});
              }),
              HasSubstr("Prepare both with the same tokenizer"));
}

TEST_F(CorpusTest, TheSubsetIsATenthAndTheSameForEveryRun) {
  for (const auto& [windows, tenth] :
       std::map<std::size_t, std::size_t>{{1, 1}, {10, 1}, {11, 2}, {100, 10}}) {
    write_tokens(path("t"), counting({2 * (4 * windows + 1)}));
    const Corpus corpus({.train = {path("t")}, .valid = 0.5, .sequence = 4});
    ASSERT_EQ(corpus.num_valid_windows(), windows);
    const auto subset = corpus.valid_subset();
    EXPECT_EQ(subset.size(), tenth);
    EXPECT_EQ(std::set(subset.begin(), subset.end()).size(), tenth);
    EXPECT_TRUE(std::is_sorted(subset.begin(), subset.end()));
    EXPECT_LT(subset.back(), windows);
    EXPECT_EQ(subset, corpus.valid_subset());
  }
}

TEST_F(CorpusTest, ATokenFileBeyondTwoToTheThirtyOneIsReadAtItsEnd) {
  // A sparse file of zeros with the last token set: nothing counts tokens in 32 bits.
  constexpr std::uint64_t kSamples = 2149634, kTokens = 999 * kSamples + 1;
  static_assert(kTokens > std::uint64_t{1} << 31);
  write_tokens(path("t"), {{0}}, 256);
  std::fstream file(path("t"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(24).write(reinterpret_cast<const char*>(&kTokens), 8);
  file.seekp(static_cast<std::streamoff>(128 + kTokens - 1)).write("\7\0\0\0\0\0\0\0\0", 9);
  file.close();
  const Corpus corpus({.train = {path("t")}, .valid = 0, .sequence = 999});
  ASSERT_EQ(corpus.num_samples(), kSamples);
  const Ids last = sample(corpus, kSamples - 1);
  EXPECT_EQ(last[999], 7);
  EXPECT_EQ(last[998], 0);
}

TEST_F(CorpusTest, BatchesShiftTargetsByOneAndFillShortWindowsUp) {
  write_tokens(path("t"), counting({14}));  // 7 held out: windows 7..11 and 11..13
  const Corpus corpus({.train = {path("t")}, .valid = 0.5, .sequence = 4});
  const MicroBatch train = sample_batch(corpus, std::vector<std::uint64_t>{0, 0});
  EXPECT_EQ(train.rows, 2);
  EXPECT_THAT(train.inputs, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_THAT(train.targets, ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
  EXPECT_EQ(train.tokens, 8);
  const MicroBatch valid = valid_batch(corpus, std::vector<std::uint64_t>{1, 0});
  EXPECT_THAT(valid.inputs, ElementsAre(11, 12, 0, 0, 7, 8, 9, 10));
  EXPECT_THAT(valid.targets, ElementsAre(12, 13, kNoTarget, kNoTarget, 8, 9, 10, 11));
  EXPECT_EQ(valid.tokens, 6);
}

}  // namespace
}  // namespace tutti::data
