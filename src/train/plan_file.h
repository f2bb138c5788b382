// RUN/plan.json: every decision of a run as data, each section a plain struct of the module that
// decides it. A missing section is decided anew.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "comm/choice.h"
#include "core/json.h"
#include "mesh/layout.h"
#include "train/precision.h"

namespace tutti::train {

struct Plan {
  mesh::Layout layout;
  std::optional<std::int64_t> bucket_bytes;      // gradient buckets close at this size
  std::optional<bool> keep_gathered;             // ZeRO 3 gathers parameters once a step
  std::optional<Precision> precision;            // what the run computes in
  std::optional<comm::ChoiceTable> collectives;  // which algorithm runs a collective of which size
};

core::Json to_json(const Plan& plan);
void write_plan(const std::filesystem::path& path, const Plan& plan);
/// Throws core::ConfigError naming the file and what is wrong.
Plan read_plan(const std::filesystem::path& path);

}  // namespace tutti::train
