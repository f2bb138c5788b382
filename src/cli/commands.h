// The program's subcommands. Each file adds its own to the command line and says what to run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace tutti::cli {

/// Runs the chosen command and returns the exit status; throws core::Error.
using Run = std::function<int()>;

/// What every command file gets: where to add itself, and where its parsed form puts what is to be
/// run.
struct Commands {
  CLI::App& app;
  Run& chosen;
  std::vector<std::string> program;  // `tutti launch`: everything behind "--"
};

void add_train(Commands& commands);
void add_launch(Commands& commands);
void add_data(Commands& commands);
void add_verify(Commands& commands);
void add_checkpoint(Commands& commands);
void add_sample(Commands& commands);
void add_schedule(Commands& commands);
void add_memory(Commands& commands);
void add_bench(Commands& commands);
void add_not_built(
    Commands& commands);  // every command of the interface whose part does not exist yet

/// A subcommand with its one sentence and one real example, as `--help` shows them.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& does,
                      const std::string& example);

}  // namespace tutti::cli
