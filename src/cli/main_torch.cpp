// The program that links LibTorch: one process is one rank. Users call `tutti`, which checks
// everything and starts this.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "cli/bench_form.h"
#include "cli/rank_commands.h"
#include "core/error.h"
#include "core/log.h"

namespace tutti::cli {
namespace {

void add_train(CLI::App& app, std::function<int()>& chosen) {
  auto options = std::make_shared<RankTrainOptions>();
  CLI::App* command = app.add_subcommand("train", "one rank of a training run");
  command->add_option("config", options->config, "complete config of the run")->required();
  command->add_option("--resume", options->resume, "checkpoint folder");
  command->add_flag("--eval-only", options->evaluate_only, "validation loss only");
  command->add_flag("--json", options->json, "summary on stdout");
  command->add_option("--launched-at", options->launched_at_s, "seconds on the steady clock");
  command->callback([options, &chosen] { chosen = [options] { return rank_train(*options); }; });
}

void add_dump(CLI::App& app, std::function<int()>& chosen) {
  auto options = std::make_shared<RankDumpOptions>();
  CLI::App* command = app.add_subcommand("dump", "a few steps, written out for a certificate");
  command->add_option("config", options->config, "complete config")->required();
  command->add_option("--steps", options->steps, "optimizer steps")->check(CLI::PositiveNumber);
  command->add_option("--out", options->out, "folder")->required();
  command->callback([options, &chosen] { chosen = [options] { return rank_dump(*options); }; });
}

void add_sample(CLI::App& app, std::function<int()>& chosen) {
  auto options = std::make_shared<RankSampleOptions>();
  CLI::App* command = app.add_subcommand("sample", "text from a checkpoint");
  command->add_option("checkpoint", options->checkpoint, "checkpoint folder")->required();
  command->add_option("--tokenizer", options->tokenizer, "folder of tokenizer.json");
  command->add_option("--prompt", options->prompt, "beginning of the text")->required();
  command->add_option("--tokens", options->tokens, "tokens to draw");
  command->add_option("--temperature", options->temperature, "0: the likeliest token");
  command->add_option("--top-k", options->top_k, "0: all tokens");
  command->add_option("--seed", options->seed, "equal seeds, equal text");
  command->callback([options, &chosen] { chosen = [options] { return rank_sample(*options); }; });
}

void add_bench_collectives(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* command = app.add_subcommand("bench-collectives", "collectives of tensors, measured");
  const std::shared_ptr<BenchForm> form = add_bench_form(*command);
  command->callback([form, &chosen] { chosen = [form] { return rank_bench(*form); }; });
}

int run(int argc, char** argv) {
  CLI::App app("tutti-torch: one rank of a job. Use `tutti`.");
  std::function<int()> chosen;
  app.require_subcommand(1);
  add_train(app, chosen);
  add_dump(app, chosen);
  add_sample(app, chosen);
  add_bench_collectives(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return chosen();
}

}  // namespace
}  // namespace tutti::cli

int main(int argc, char** argv) {
  try {
    return tutti::cli::run(argc, argv);
  } catch (const tutti::core::Error& error) {
    tutti::core::log::error("{}", error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    tutti::core::log::error("{}", error.what());
    return 1;
  }
}
