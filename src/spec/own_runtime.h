// How tutti itself holds bytes, in the terms of Runtime. Every number that the training step
// decides stands here, so that a change of the step is a change of one line; docs/design/0006 has
// the measurements.
#pragma once

#include <cstdint>
#include <string>

#include "spec/memory.h"

namespace tutti::spec {

struct OwnRuntime {
  std::string precision = "fp32";      // fp32 | fp64 | bf16
  int optimizer_states = 2;            // per updated parameter: AdamW 2, SGD 1
  bool attention_dropout = false;      // needs the unfused path
  bool share_pages = true;             // ranks of a host map one copy of the weights
  bool checkpoints = false;            // parameters and optimizer are copied, then written
  std::int64_t ranks_on_host = 1;      // of one shard group
  std::int64_t processes_on_host = 1;  // ranks of this job
};

Runtime own_runtime(const OwnRuntime& own);

}  // namespace tutti::spec
