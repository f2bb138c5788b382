// The validation loss.
#pragma once

#include <cstdint>
#include <span>

#include "backend/group.h"
#include "data/corpus.h"
#include "parallel/stage.h"

namespace tutti::train {

/// Mean loss per predicted token (nats) over these validation windows, shared out among the ranks
/// of `group`, `rows` at a time. Collective; the same value on every rank. `group` is the
/// data-parallel group.
double evaluate(parallel::Stage& stage, const data::Corpus& corpus,
                std::span<const std::uint64_t> windows, int rows, backend::Group& group);

}  // namespace tutti::train
