// A model's sizes as they stand in a checkpoint's index: what must be equal for a resume.
#pragma once

#include <string>

#include "core/json.h"
#include "spec/options.h"

namespace tutti::spec {

/// The resolved sizes and the optimizer's kind, whose state a checkpoint holds beside the
/// parameters.
core::Json model_to_json(const ModelOptions& model, const std::string& optimizer);

/// The sizes again. Throws core::ConfigError if one is missing.
ModelOptions model_from_json(const core::Json& json);

}  // namespace tutti::spec
