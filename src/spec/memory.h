// Bytes that training needs on one rank. (Activations, buffers and the rest of the table come with
// `tutti memory`.)
#pragma once

#include <cstdint>

#include "mesh/layout.h"
#include "spec/model_spec.h"

namespace tutti::spec {

struct StateBytes {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  [[nodiscard]] std::int64_t total() const { return parameters + gradients + optimizer; }
};

/// Parameters, gradients and optimizer state of one rank. `element_bytes`: 4 (fp32) or 8 (fp64);
/// `optimizer_states`: 2 (AdamW), 1 (SGD with momentum) or 0.
StateBytes state_bytes(const ModelSpec& spec, const mesh::Layout& layout, int element_bytes,
                       int optimizer_states);

}  // namespace tutti::spec
