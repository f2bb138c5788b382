// What can be wrong with [data], found before anything starts.
#pragma once

#include <vector>

#include "core/error.h"
#include "data/options.h"

namespace tutti::data {

/// Mistakes that show in the options alone: no file, weights that do not fit, `valid` or `sequence`
/// out of range.
std::vector<core::Problem> check_options(const DataOptions& options);

/// All of them, and those that show only in the token files (opened, their tokens not read) or
/// beside the model: a missing, cut or foreign file, another vocabulary than the model's, a
/// sequence longer than its context, a corpus shorter than one global batch. `model_context` in
/// tokens; `model_vocab` 0: the tokenizer's; `global_batch` in sequences. Each problem is a
/// sentence with its cure; empty if there is none.
std::vector<core::Problem> check(const DataOptions& options, int model_context, int model_vocab,
                                 int global_batch);

}  // namespace tutti::data
