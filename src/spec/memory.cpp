// Bytes of parameters, gradients and optimizer state per rank.
#include "spec/memory.h"

namespace tutti::spec {

StateBytes state_bytes(const ModelSpec& spec, const mesh::Layout& layout, int element_bytes,
                       int optimizer_states) {
  const std::int64_t all = spec.num_params() * element_bytes;
  const int dp = layout.size(mesh::Axis::Dp);
  const auto shard = [&](std::int64_t bytes, bool sharded) {
    return sharded ? (bytes + dp - 1) / dp : bytes;
  };
  return {.parameters = shard(all, layout.zero >= 3),
          .gradients = shard(all, layout.zero >= 2),
          .optimizer = shard(all * optimizer_states, layout.zero >= 1)};
}

}  // namespace tutti::spec
