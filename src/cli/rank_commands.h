// The commands of build/libexec/tutti-torch: one process is one rank. `tutti` starts them after all
// checks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tutti::cli {

struct RankTrainOptions {
  std::filesystem::path config;  // RUN/config.toml (or eval.toml), complete
  std::filesystem::path resume;  // a checkpoint's folder; empty: from the beginning
  bool evaluate_only = false;
  bool json = false;         // rank 0 prints the summary on stdout
  double launched_at_s = 0;  // when `tutti` began, on core::now()'s clock; 0: another launcher
};
/// Trains, or resumes, or validates only. Returns the exit status.
int rank_train(const RankTrainOptions& options);

struct RankDumpOptions {
  std::filesystem::path config;  // a complete config
  int steps = 5;
  std::filesystem::path
      out;  // OUT/step-1, OUT/step-N (checkpoint format, with "grad/NAME") and OUT/losses.json
};
/// A few steps for `tutti verify`.
int rank_dump(const RankDumpOptions& options);

struct RankSampleOptions {
  std::filesystem::path checkpoint;  // its folder
  std::filesystem::path tokenizer;   // folder that holds tokenizer.json; empty: the run's
  std::string prompt;
  int tokens = 256;
  double temperature = 1.0;
  int top_k = 0;
  std::uint64_t seed = 1;
};
/// Writes the prompt and its continuation to stdout as it is drawn.
int rank_sample(const RankSampleOptions& options);

struct BenchForm;  // cli/bench_form.h
/// `tutti bench collectives --api group`: forks the ranks itself.
int rank_bench(const BenchForm& form);

}  // namespace tutti::cli
