// Sampling with a cache against sampling without one: the oracle is a forward over the whole text.
#include "model/sample.h"

#include <gmock/gmock.h>

#include <set>

#include "model/attention.h"
#include "model/build.h"
#include "parallel/replica.h"

namespace tutti::model {
namespace {

constexpr int kContext = 24;
constexpr int kVocab = 96;

/// A tiny GPT whose weights are large enough to have opinions.
class TinyGpt {
 public:
  explicit TinyGpt(at::ScalarType type, int kv_heads = 4)
      : spec_(describe(kv_heads)), replica_(spec_, {}, {.type = type}, nullptr) {
    initialise(spec_, replica_, /*seed=*/3);
    const at::NoGradGuard no_grad;
    for (const parallel::ShardView& piece : replica_.owned()) {
      if (spec_.params[piece.param].shape.size() > 1) piece.value.mul_(8);
    }
  }

  std::vector<std::int64_t> sample(const std::vector<std::int64_t>& prompt, SampleOptions options) {
    const WeightOf weight = [&](int param) {
      return parallel::Weight{replica_.value(param), param, &replica_.weight_grads()};
    };
    std::vector<std::int64_t> drawn;
    model::sample(spec_, weight, prompt, options,
                  [&](std::int64_t token) { drawn.push_back(token); });
    return drawn;
  }

 private:
  static spec::ModelSpec describe(int kv_heads) {
    spec::ModelOptions options;
    options.kv_heads = kv_heads;
    options.layers = 3;
    options.hidden = 32;
    options.heads = 4;
    options.vocab = kVocab;
    options.context = kContext;
    options.tied = false;  // a tied head likes the last token best, and the text would not move
    std::vector<core::Problem> problems;
    return spec::describe(spec::resolve(options, kVocab, problems));
  }

  spec::ModelSpec spec_;
  parallel::Replica replica_;
};

std::vector<std::int64_t> prompt_of(int tokens) {
  std::vector<std::int64_t> prompt;
  for (int i = 0; i < tokens; ++i) prompt.push_back((7 * i + 5) % kVocab);
  return prompt;
}

class SampleIn : public testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, SampleIn, testing::Values(at::kFloat, at::kDouble));

// Prompts of one token, within, exactly and beyond the context; the text outgrows it in each case.
TEST_P(SampleIn, ACacheGivesTheTokensOfTheWholeForwardAlsoBeyondTheContext) {
  TinyGpt plain(GetParam()), grouped(GetParam(), /*kv_heads=*/2);
  for (const double temperature : {0.0, 1.0}) {
    for (const int length : {1, 5, kContext - 1, kContext, kContext + 6}) {
      SCOPED_TRACE(testing::Message() << length << " tokens, temperature " << temperature);
      TinyGpt& gpt = length % 2 == 0 ? grouped : plain;
      SampleOptions options = {.tokens = 2 * kContext, .temperature = temperature, .seed = 11};
      const auto cached = gpt.sample(prompt_of(length), options);
      options.cache = false;
      EXPECT_EQ(cached, gpt.sample(prompt_of(length), options));
      EXPECT_EQ(cached.size(), 2U * kContext);
      if (temperature > 0) {
        EXPECT_GT(std::set(cached.begin(), cached.end()).size(), 10U) << "it tells nothing";
      }
    }
  }
}

TEST_P(SampleIn, TemperatureZeroIsTheLikeliestToken) {
  TinyGpt gpt(GetParam());
  const auto greedy = gpt.sample(prompt_of(3), {.tokens = 10, .temperature = 0, .seed = 1});
  EXPECT_EQ(greedy, gpt.sample(prompt_of(3), {.tokens = 10, .top_k = 1, .seed = 2}));
}

TEST_P(SampleIn, MoreThanTheVocabularyIsTheVocabulary) {
  TinyGpt gpt(GetParam());
  const auto all = gpt.sample(prompt_of(3), {.tokens = 20, .top_k = 0});
  EXPECT_EQ(all, gpt.sample(prompt_of(3), {.tokens = 20, .top_k = kVocab + 1000}));
  EXPECT_NE(all, gpt.sample(prompt_of(3), {.tokens = 20, .top_k = 2}));
}

TEST(Sample, RefusesAPromptOfNoTokens) {
  TinyGpt gpt(at::kFloat);
  EXPECT_THROW(gpt.sample({}, {.tokens = 1}), std::invalid_argument);
}

TEST_P(SampleIn, AttentionRowByRowIsAttentionAtOnce) {
  const at::NoGradGuard no_grad;
  const int size = 8, tokens = 9;
  for (const HeadCounts heads : {HeadCounts{4, 4}, {4, 2}, {4, 1}}) {
    const std::int64_t width = (heads.query + 2 * heads.key) * size;
    const at::Tensor qkv_NF =
        at::sin(at::arange(tokens * width, at::kDouble) * 0.7).view({tokens, -1}).to(GetParam());
    parallel::MicroBatch batch;
    batch.sequence = tokens;
    const at::Tensor whole_NC = causal_attention(qkv_NF, heads, batch, {});
    const double bound = GetParam() == at::kFloat ? 2e-6 : 1e-14;
    for (const int prompt : {1, 4}) {
      KvCache cache(1, heads.key, size, tokens, GetParam());
      for (int first = 0, rows = prompt; first < tokens; first += rows, rows = 1) {
        const at::Tensor y_NC = cache.attend(0, qkv_NF.narrow(0, first, rows), heads);
        cache.advance(rows);
        const at::Tensor gap = (y_NC - whole_NC.narrow(0, first, rows)).abs().max();
        EXPECT_LE(gap.item<double>(), bound) << "row " << first << ", key heads " << heads.key;
      }
      EXPECT_THROW(cache.attend(0, qkv_NF.narrow(0, 0, 1), heads), std::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace tutti::model
