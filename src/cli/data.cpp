// tutti data: texts to token files.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "core/error.h"
#include "data/prepare.h"

namespace tutti::cli {
namespace {

void add_prepare(Commands& commands, CLI::App& data) {
  CLI::App* command =
      add_command(data, "prepare", "makes a token file of texts, each file one document",
                  "tutti data prepare plays/*.txt --tokenizer bytes -o data/plays.tokens");
  auto options = std::make_shared<data::PrepareOptions>();
  auto json = std::make_shared<bool>(false);
  command->add_option("TEXT", options->texts, "text files, UTF-8")->required();
  command->add_option("--tokenizer", options->tokenizer, "bytes (gpt2 and files come later)")
      ->capture_default_str();
  command->add_option("-o", options->output, "the token file to write")->required();
  command->add_option("--skip-bad", options->skip_bad, "texts that may be missing or unreadable")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", *json, "print one JSON document");
  command->callback([&commands, options, json] {
    commands.chosen = [options, json] {
      const data::PrepareReport report = data::prepare(*options);
      if (*json) {
        std::cout << data::to_json(report).dump(2) << '\n';
      } else {
        fmt::print("{}\n", data::describe(report, options->output));
      }
      return 0;
    };
  });
}

}  // namespace

void add_data(Commands& commands) {
  CLI::App* data =
      add_command(commands.app, "data", "prepares training data",
                  "tutti data prepare plays/*.txt --tokenizer bytes -o data/plays.tokens");
  data->require_subcommand(1);
  add_prepare(commands, *data);
  CLI::App* balance =
      data->add_subcommand("balance", "(not built yet) shows how batches are dealt out");
  balance->allow_extras();
  balance->callback([&commands] {
    commands.chosen = []() -> int {
      throw core::ConfigError(
          "tutti data balance is not built yet: it shows how batches are dealt out. What this "
          "version "
          "can do stands in tutti data --help.");
    };
  });
}

}  // namespace tutti::cli
