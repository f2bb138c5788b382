// `tutti sample`: one process, the checkpoint's parameters, text on stdout.
#include <cstdio>

#include "checkpoint/reader.h"
#include "cli/rank_commands.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "data/tokenizer.h"
#include "model/sample.h"
#include "parallel/replica.h"
#include "spec/model_json.h"
#include "tensor/runtime.h"
#include "train/state.h"

namespace tutti::cli {

namespace {

// A run keeps its tokenizer beside its checkpoints: RUN/tokenizer.json, RUN/checkpoints/step-N.
std::filesystem::path tokenizer_folder(const RankSampleOptions& options) {
  if (!options.tokenizer.empty()) return options.tokenizer;
  return std::filesystem::absolute(options.checkpoint)
      .lexically_normal()
      .parent_path()
      .parent_path();
}

std::vector<std::int64_t> encode_prompt(const data::Tokenizer& tokenizer, const std::string& text) {
  try {
    std::vector<std::int64_t> tokens = data::encode_all(tokenizer, text);
    if (!tokens.empty()) return tokens;
  } catch (const core::ConfigError& error) {
    throw core::ConfigError(fmt::format("--prompt: {}", error.what()));
  }
  throw core::ConfigError(
      "--prompt is empty: a text goes on from at least one token. Give a word or a line break.");
}

}  // namespace

int rank_sample(const RankSampleOptions& options) {
  core::set_up_log({});
  tensor::set_up_runtime(1);
  const checkpoint::Index index = checkpoint::read_index(options.checkpoint);
  const auto tokenizer = data::load_tokenizer(tokenizer_folder(options));
  const spec::ModelSpec spec = spec::describe(spec::model_from_json(index.model));
  // First of all what the user wrote: a tokenizer that reads UTF-8 refuses other bytes by offset.
  const std::vector<std::int64_t> prompt = encode_prompt(*tokenizer, options.prompt);
  parallel::Replica replica(spec, {}, {.type = train::parameter_type(index)}, nullptr);
  train::load_parameters(options.checkpoint, spec, replica);

  std::fwrite(options.prompt.data(), 1, options.prompt.size(), stdout);
  model::WeightOf weight = [&](int param) {
    return parallel::Weight{replica.value(param), param, &replica.weight_grads()};
  };
  const core::Stopwatch watch;
  model::sample(spec, weight, prompt,
                {.tokens = options.tokens,
                 .temperature = options.temperature,
                 .top_k = options.top_k,
                 .seed = options.seed},
                [&](std::int64_t token) {
                  const std::string text = tokenizer->decode({&token, 1});
                  std::fwrite(text.data(), 1, text.size(), stdout);
                  std::fflush(stdout);
                });
  std::fputc('\n', stdout);
  std::fflush(stdout);  // before the line on stderr
  const double seconds = watch.elapsed().count();
  core::log::info("{} tokens in {:.2f} s: {:.1f} tokens/s", options.tokens, seconds,
                  options.tokens / seconds);
  return 0;
}

}  // namespace tutti::cli
