// Every mistake in [data] is a sentence with its cure, and none hides another.
#include "data/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "data/test_files.h"

namespace tutti::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_files::counting;
using testing_files::write_tokens;

class Check : public testing_files::InFolder {
 protected:
  Check() { write_tokens(path("t"), counting({100}), 256, "bytes"); }

  DataOptions good() { return {.train = {path("t")}, .valid = 0.05, .sequence = 8}; }

  struct Model {
    int context = 8;
    int vocab = 256;
    int global = 11;  // (95 - 1) / 8 samples
  };
  static std::vector<std::string> problems(const DataOptions& options, Model model) {
    std::vector<std::string> texts;
    for (const auto& problem : check(options, model.context, model.vocab, model.global))
      texts.push_back(problem.text);
    return texts;
  }
  static std::vector<std::string> problems(const DataOptions& options) {
    return problems(options, Model{});
  }
};

TEST_F(Check, FindsNothingWrongWithGoodOptions) {
  EXPECT_THAT(problems(good()), IsEmpty());
  EXPECT_THAT(problems(good(), {.vocab = 0}), IsEmpty());
}

TEST_F(Check, ComparesWithModelAndBatch) {
  EXPECT_THAT(problems(good(), {.context = 7}),
              ElementsAre(HasSubstr("[data] sequence = 8 is longer than [model] context = 7")));
  EXPECT_THAT(
      problems(good(), {.vocab = 257}),
      ElementsAre(HasSubstr("[model] vocab = 257 is not the vocabulary 256 of [data] train")));
  EXPECT_THAT(
      problems(good(), {.global = 12}),
      ElementsAre(HasSubstr(
          "95 training tokens, which are 11 samples of 8 tokens, fewer than one batch of [batch] "
          "global = 12")));
}

TEST_F(Check, ReportsAllProblemsAtOnce) {
  EXPECT_THAT(problems(good(), {.context = 7, .vocab = 3, .global = 12}),
              ElementsAre(HasSubstr("context"), HasSubstr("vocab"), HasSubstr("global")));
}

TEST_F(Check, NamesEveryBadFile) {
  DataOptions options = good();
  testing_files::write(path("cut"), testing_files::read(path("t")).substr(0, 150));
  options.train = {path("none"), path("t"), path("cut")};
  EXPECT_THAT(problems(options),
              ElementsAre(HasSubstr("none does not exist"), HasSubstr("cut short")));
  options = good();
  options.valid_file = path("none");
  EXPECT_THAT(problems(options), ElementsAre(HasSubstr("none does not exist")));
}

TEST_F(Check, RefusesFilesOfTwoTokenizers) {
  DataOptions options = good();
  write_tokens(path("other"), counting({100}), 256, "other");
  options.valid_file = path("other");
  EXPECT_THAT(problems(options), ElementsAre(HasSubstr("same tokenizer")));
}

TEST_F(Check, KnowsTheRangeOfTheValidShare) {
  DataOptions options = good();
  for (const double valid : {-0.1, 1.0, 5.0, std::numeric_limits<double>::quiet_NaN()}) {
    options.valid = valid;
    EXPECT_THAT(problems(options), ElementsAre(HasSubstr("is not a share from 0 to below 1")))
        << valid;
  }
  options.valid = 0;
  EXPECT_THAT(problems(options), IsEmpty());
  options.valid = 0.01;  // one token
  EXPECT_THAT(problems(options), ElementsAre(HasSubstr("nothing can be validated")));
}

TEST_F(Check, KnowsWhatOptionsCannotBe) {
  DataOptions options = good();
  options.sequence = 0;
  EXPECT_THAT(problems(options), ElementsAre(HasSubstr("sequence = 0 must be at least 1")));
  options = good();
  options.train = {};
  EXPECT_THAT(problems(options), ElementsAre(HasSubstr("names no token file")));
  options = good();
  options.weights = {1, 2};
  EXPECT_THAT(problems(options), ElementsAre(HasSubstr("weights has 2 values for 1 files")));
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    options.weights = {weight};
    EXPECT_THAT(problems(options), ElementsAre(HasSubstr("a weight is larger than 0"))) << weight;
  }
}

}  // namespace
}  // namespace tutti::data
