// tutti data: texts to token files.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/units.h"
#include "data/prepare.h"

namespace tutti::cli {
namespace {

/// A line on the terminal that says how far it is; nothing elsewhere.
class Progress {
 public:
  std::function<void(std::uint64_t, std::uint64_t)> callback() {
    if (::isatty(STDERR_FILENO) != 1) return {};
    return [this](std::uint64_t done, std::uint64_t total) { show(done, total); };
  }

  void clear() {
    if (shown_s_ > 0) fmt::print(stderr, "\r\033[K");
  }

 private:
  void show(std::uint64_t done, std::uint64_t total) {
    const double now_s = watch_.elapsed().count();
    if (now_s - shown_s_ < 0.2) return;
    shown_s_ = now_s;
    fmt::print(stderr, "\r{} of {}, {}/s\033[K", core::format_bytes(done),
               core::format_bytes(total),
               core::format_bytes(static_cast<std::uint64_t>(static_cast<double>(done) / now_s)));
    std::fflush(stderr);
  }

  core::Stopwatch watch_;
  double shown_s_ = 0;
};

void add_prepare(Commands& commands, CLI::App& data) {
  CLI::App* command =
      add_command(data, "prepare", "makes a token file of texts, each file one document",
                  "tutti data prepare plays/*.txt --tokenizer gpt2 -o data/plays.tokens");
  auto options = std::make_shared<data::PrepareOptions>();
  auto json = std::make_shared<bool>(false);
  command->add_option("TEXT", options->texts, "text files, UTF-8")->required();
  command->add_option("--tokenizer", options->tokenizer, "bytes or gpt2 (files come later)")
      ->capture_default_str();
  command->add_option("--vocabulary", options->vocabulary,
                      "folder of gpt2's encoder.json and vocab.bpe (default: .deps/gpt2)");
  command->add_option("-o", options->output, "the token file to write")->required();
  command->add_option("--skip-bad", options->skip_bad, "texts that may be missing or unreadable")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", options->threads, "threads that encode (default: one per core)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", *json, "print one JSON document");
  command->callback([&commands, options, json] {
    commands.chosen = [options, json] {
      Progress progress;
      options->progress = progress.callback();
      const data::PrepareReport report = data::prepare(*options);
      progress.clear();
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
                  "tutti data prepare plays/*.txt --tokenizer gpt2 -o data/plays.tokens");
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
