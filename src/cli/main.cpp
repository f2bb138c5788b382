// build/tutti: the program without LibTorch. Parses the command line, runs one command, turns
// errors into exit statuses.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "core/error.h"
#include "core/log.h"
#include "core/suggest.h"

namespace tutti::cli {
namespace {

constexpr int kUsersMistake = 2;

/// The nearest command or option to the first word that is none.
std::string suggestion(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string near = core::nearest(word, known);
  return near.empty() ? "" : fmt::format(" Did you mean {}?", near);
}

/// The innermost subcommand on the command line: its help is the one that helps.
const CLI::App* innermost(const CLI::App& app) {
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) current = current->get_subcommands().front();
  return current;
}

int wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = innermost(app);
  std::string name = "tutti";
  if (command != &app) name += " " + command->get_name();
  const std::vector<std::string> extra = app.remaining(true);
  std::string text = error.what();
  if (!extra.empty()) {
    text = fmt::format("\"{}\" is none of its commands or options.{}", extra.front(),
                       suggestion(*command, extra.front()));
  }
  if (!text.ends_with('.') && !text.ends_with('?')) text += '.';
  fmt::print(stderr, "{}: {} See {} --help.\n", name, text, name);
  return kUsersMistake;
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  CLI::App app("Trains one model on many devices as if they were one.", "tutti");
  app.set_version_flag("--version", "tutti " TUTTI_VERSION);
  app.require_subcommand(0, 1);
  app.footer(
      "Example: tutti train examples/shakespeare.toml -n 2\n\n"
      "Exit status: 0 done; 1 the run failed; 2 a mistake in the command, the config or a file; "
      "130 interrupted.");
  Run chosen;
  Commands commands{app, chosen, {}};
  if (!words.empty() &&
      words.front() == "launch") {  // what follows "--" is another program's command line
    const auto dashes = std::find(words.begin(), words.end(), "--");
    if (dashes != words.end()) commands.program.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  add_train(commands);
  add_launch(commands);
  add_data(commands);
  add_verify(commands);
  add_checkpoint(commands);
  add_sample(commands);
  add_schedule(commands);
  add_memory(commands);
  add_bench(commands);
  add_not_built(commands);
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return wrong_usage(app, error);
  }
  if (!chosen) {
    fmt::print(stderr, "{}", app.help());
    return kUsersMistake;
  }
  core::set_up_log({});
  return chosen();
}

}  // namespace

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& does,
                      const std::string& example) {
  CLI::App* command = app.add_subcommand(name, does);
  command->footer("Example: " + example);
  return command;
}

}  // namespace tutti::cli

int main(int argc, char** argv) {
  try {
    return tutti::cli::run(argc, argv);
  } catch (const tutti::core::Error& error) {
    fmt::print(stderr, "tutti: {}\n", error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti: {}\n", error.what());
    return 1;
  }
}
