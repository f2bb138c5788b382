// Mistakes in [data] as sentences.
#include "data/check.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/units.h"
#include "data/corpus.h"

namespace tutti::data {
namespace {

using Problems = std::vector<core::Problem>;

/// The corpus, or none and why.
std::optional<Corpus> open(const DataOptions& options, Problems& problems) {
  // One file at a time first, so that every bad one is named and not only the first.
  std::vector<std::string> paths = options.train;
  if (!options.valid_file.empty()) paths.push_back(options.valid_file);
  const std::size_t before = problems.size();
  for (const std::string& path : paths) {
    try {
      const TokenFile file(path);
    } catch (const core::ConfigError& error) {
      problems.push_back({fmt::format("[data] {}", error.what())});
    }
  }
  if (problems.size() > before) return std::nullopt;
  try {
    return Corpus(options);
  } catch (const core::ConfigError& error) {
    problems.push_back({fmt::format("[data] {}", error.what())});
    return std::nullopt;
  }
}

void check_vocabulary(const Corpus& corpus, const DataOptions& options, int model_vocab,
                      Problems& problems) {
  const TokenizerId& tokenizer = corpus.tokenizer();
  if (model_vocab == 0 || static_cast<std::uint64_t>(model_vocab) == tokenizer.vocab_size) return;
  problems.push_back(
      {fmt::format("[model] vocab = {} is not the vocabulary {} of [data] train = {} (tokenizer "
                   "{}): the model needs one row per token. "
                   "Set vocab = {} or leave it out, or prepare the text with another tokenizer.",
                   model_vocab, tokenizer.vocab_size, options.train.front(), tokenizer.name,
                   tokenizer.vocab_size)});
}

void check_length(const Corpus& corpus, int global_batch, Problems& problems) {
  const std::uint64_t samples = corpus.num_samples();
  if (samples >= static_cast<std::uint64_t>(std::max(global_batch, 1))) return;
  problems.push_back({fmt::format(
      "[data] train has {} training tokens, which are {} samples of {} tokens, fewer than one "
      "batch of [batch] global = "
      "{}: no step could be made without repeating itself. Give more text, or reduce global or "
      "[data] sequence.",
      core::format_count(corpus.num_train_tokens()), samples, corpus.sequence(), global_batch)});
}

void check_validation(const Corpus& corpus, const DataOptions& options, Problems& problems) {
  const bool wanted = options.valid > 0 || !options.valid_file.empty();
  if (!wanted || corpus.num_valid_windows() > 0) return;
  problems.push_back({fmt::format(
      "[data] valid = {} holds out fewer than 2 tokens of every document, so nothing can be "
      "validated. Raise it, or set "
      "valid = 0.",
      options.valid_file.empty() ? fmt::format("{}", options.valid) : options.valid_file)});
}

}  // namespace

std::vector<core::Problem> check_options(const DataOptions& options) {
  Problems problems;
  const auto add = [&](std::string text) { problems.push_back({std::move(text)}); };
  if (options.train.empty())
    add("[data] train names no token file. Make one with `tutti data prepare`.");
  if (!(options.valid >= 0 && options.valid < 1)) {
    add(
        fmt::format("[data] valid = {} is not a share from 0 to below 1: it is the part of every "
                    "document that is held "
                    "out for validation. 0.05 is usual.",
                    options.valid));
  }
  if (options.sequence < 1) {
    add(fmt::format("[data] sequence = {} must be at least 1: it counts the tokens of a sample.",
                    options.sequence));
  }
  const auto bad_weight = [](double weight) { return !(std::isfinite(weight) && weight > 0); };
  if (!options.weights.empty() && options.weights.size() != options.train.size()) {
    add(
        fmt::format("[data] weights has {} values for {} files of train: each file needs one. Give "
                    "as many, or none.",
                    options.weights.size(), options.train.size()));
  } else if (const auto bad = std::ranges::find_if(options.weights, bad_weight);
             bad != options.weights.end()) {
    add(
        fmt::format("[data] weights holds {}: a weight is larger than 0. Leave the file out if it "
                    "is not wanted.",
                    *bad));
  }
  return problems;
}

std::vector<core::Problem> check(const DataOptions& options, int model_context, int model_vocab,
                                 int global_batch) {
  Problems problems = check_options(options);
  if (options.sequence > model_context) {
    problems.push_back(
        {fmt::format("[data] sequence = {} is longer than [model] context = {}: the position "
                     "embedding covers no more. Set sequence "
                     "to {} or less, or raise context.",
                     options.sequence, model_context, model_context)});
  }
  if (!check_options(options).empty()) return problems;  // the corpus needs options that make sense
  if (const auto corpus = open(options, problems)) {
    check_vocabulary(*corpus, options, model_vocab, problems);
    check_length(*corpus, global_batch, problems);
    check_validation(*corpus, options, problems);
  }
  return problems;
}

}  // namespace tutti::data
