// `tutti sample`: one process, the checkpoint's parameters, text on stdout.
#include <cstdio>

#include "checkpoint/reader.h"
#include "cli/rank_commands.h"
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

}  // namespace

int rank_sample(const RankSampleOptions& options) {
  core::set_up_log({});
  tensor::set_up_runtime(1);
  const checkpoint::Index index = checkpoint::read_index(options.checkpoint);
  const auto tokenizer = data::load_tokenizer(tokenizer_folder(options));
  const spec::ModelSpec spec = spec::describe(spec::model_from_json(index.model));
  parallel::Replica replica(spec, backend::Group(), {.type = train::parameter_type(index)},
                            nullptr);
  train::load_parameters(options.checkpoint, spec, replica);

  const std::vector<std::int64_t> prompt = data::encode_all(*tokenizer, options.prompt);
  std::fwrite(options.prompt.data(), 1, options.prompt.size(), stdout);
  model::WeightOf weight = [&](int param) {
    return parallel::Weight{replica.value(param), param, &replica.weight_grads()};
  };
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
  return 0;
}

}  // namespace tutti::cli
