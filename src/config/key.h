// One key of the config: the row of the table that parsing, printing and suggestions all read.
#pragma once

#include <toml++/toml.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"

namespace tutti::config {

/// What is wrong with a value, as the end of a sentence that begins with `[section] key = value`.
using Complaint = std::optional<std::string>;

/// When `section.key=value` on the command line may leave out the quotes around text.
enum class BareText {
  Never,
  IfNotToml,  // data.valid=0.1 is a number, data.valid=x.tokens is text
  Always,     // run.dir=2024 is text
};

/// How a key's value is read, checked and written. A kind does not know the name of its key: `key`
/// is passed in.
struct Kind {
  /// Stores the value, or says what is wrong with it and leaves the config alone.
  std::function<Complaint(std::string_view key, const toml::node& value, RunConfig& config)> read;
  /// The value in TOML; empty if it stands for "not given" and cannot be written.
  std::function<std::optional<std::string>(const RunConfig& config)> write;
  BareText bare_text = BareText::Never;
};

struct Key {
  std::string_view section;  // "batch"
  std::string_view name;     // "micro"
  std::string
      comment;  // what it means, in which unit; stands beside it in --print-config and in messages
  Kind kind;
};

/// Every key there is, in the order in which they are printed; the keys of a section stand
/// together.
std::vector<Key> all_keys();

/// The same rows; those that a run does not obey yet take every value of the interface, for
/// commands that only plan.
std::vector<Key> planning_keys();

/// Where a key's value lives in a RunConfig.
template <class T>
struct Field {
  std::function<T&(RunConfig&)> edit;
  std::function<const T&(const RunConfig&)> view;
};

template <class Options, class T>
Field<T> field(Options RunConfig::*section, T Options::*key) {
  return {[=](RunConfig& config) -> T& { return config.*section.*key; },
          [=](const RunConfig& config) -> const T& { return config.*section.*key; }};
}

/// A value that is right but needs a part which does not exist yet.
struct NotBuilt {
  std::string value;  // as the user would write it: "bf16"
  std::string part;   // "half precision"
};

/// A whole number in [min, max].
Kind whole(Field<int> field, int min, int max = 1 << 30);
/// A whole number of which only `built` works so far: [min, max] are its values once `part` exists.
Kind whole_only(Field<int> field, int built, int min, int max, std::string part);
/// The seed: a whole number of 63 bits, as TOML has them.
Kind seed(Field<std::uint64_t> field);
/// A real number with min <= value, and value <= max, or value < max if `below_max`.
struct Reals {
  double min = 0;
  double max = 1e30;
  bool above_min = false;  // min itself is refused
  bool below_max = false;  // max itself is refused
};
Kind real(Field<double> field, Reals range);
/// Two real numbers in [0, 1).
Kind shares(Field<std::array<double, 2>> field);
/// The first and the last of some steps.
Kind steps(Field<std::array<int, 2>> field);
Kind flag(Field<bool> field);
/// Any text.
Kind text(Field<std::string> field);
/// A number of bytes ("512M"), or nothing.
Kind bytes(Field<std::string> field);
/// One of `built`, or one of `not_built`, which is refused with the part that it needs.
Kind choice(Field<std::string> field, std::vector<std::string> built,
            std::vector<NotBuilt> not_built = {});

// Keys with a grammar of their own.
Kind train_files();     // [data] train: a file, or a list of files or {path, weight}
Kind valid_share();     // [data] valid: a share or a file
Kind pipeline_order();  // [parallel] schedule: a name or a CSV file
Kind pipeline_split();  // [parallel] split: "auto" or a list
Kind data_ranks();      // [parallel] dp: at least 1; not given: fills what the other axes leave

}  // namespace tutti::config
