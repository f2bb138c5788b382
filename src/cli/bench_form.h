// What `tutti bench collectives` is asked, and its answer: the same in the program without LibTorch
// (--api comm) and in the one with it (--api group).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench_operation.h"

namespace tutti::cli {

struct BenchForm {
  std::string op = "all_reduce", sizes = "8:64M", api = "comm", dtype = "float32", table;
  int ranks = 0;  // 0: one per core, at least 2
  std::string algorithm = "auto";
  bool explain = false, peers = false, json = false, unregistered = false, statistics = false;
  double seconds = 0.5;  // per row
};

/// Adds the form's options to a command; they are filled in when the command line is parsed.
std::shared_ptr<BenchForm> add_bench_form(CLI::App& command);

/// The words that say the same to another program.
std::vector<std::string> arguments_of(const BenchForm& form);

/// Measures, prints a table or JSON. Returns the exit status; throws core::ConfigError for what
/// makes no sense, core::RunError if a rank failed or a result was wrong.
int run_bench(const BenchForm& form, const MakeOperation& make);

}  // namespace tutti::cli
