// tutti sample, the half without LibTorch: finds the checkpoint and hands over.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "cli/exec.h"
#include "cli/run_ranks.h"

namespace tutti::cli {
namespace {

struct SampleWish {
  std::string path;
  std::string prompt;
  int tokens = 200;
  double temperature = 0.8;
  int top_k = 0;
  std::uint64_t seed = 1;
};

int sample(const SampleWish& wish) {
  const std::filesystem::path checkpoint = checkpoint::find_checkpoint(wish.path);
  exec(torch_program(),
       {"sample", checkpoint.string(), "--prompt", wish.prompt, "--tokens",
        std::to_string(wish.tokens), "--temperature", fmt::format("{}", wish.temperature),
        "--top-k", std::to_string(wish.top_k), "--seed", std::to_string(wish.seed)});
}

}  // namespace

void add_sample(Commands& commands) {
  CLI::App* command = add_command(
      commands.app, "sample", "generates text with a trained model",
      "tutti sample runs/shakespeare --prompt \"ROMEO:\" --tokens 300 --temperature 0.8");
  auto wish = std::make_shared<SampleWish>();
  command
      ->add_option("RUN_OR_CHECKPOINT", wish->path,
                   "a run's folder (its newest checkpoint) or a checkpoint")
      ->required();
  command->add_option("--prompt", wish->prompt, "the text to go on from")->required();
  command->add_option("--tokens", wish->tokens, "tokens to generate")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--temperature", wish->temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", wish->top_k, "choose among the k likeliest; 0: among all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", wish->seed, "the same seed gives the same text")
      ->capture_default_str();
  command->callback([&commands, wish] { commands.chosen = [wish] { return sample(*wish); }; });
}

}  // namespace tutti::cli
