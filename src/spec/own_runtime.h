// How tutti itself holds bytes, in the terms of Runtime. Every number that the training step
// decides stands here, so that a change of the step is a change of one line; docs/design/0006 has
// the measurements.
#pragma once

#include <cstdint>
#include <string>

#include "spec/memory.h"

namespace tutti::spec {

/// What the attention kernels of a rank work on at once.
struct AttentionWork {
  std::int64_t tokens = 0;     // of a sequence; 0: not our kernels
  std::int64_t head_size = 0;  // columns
  std::int64_t threads = 1;    // each has scratch of its own
  std::int64_t lanes = 16;     // floats of a vector: 16 is AVX-512, which takes most; 8 is AVX2
};

/// fp32 words that one thread keeps for them, forward and backward together.
std::int64_t attention_scratch(const AttentionWork& work);

struct OwnRuntime {
  std::string precision = "fp32";      // fp32 | fp64 | bf16
  int optimizer_states = 2;            // per updated parameter: AdamW 2, SGD 1
  bool attention_dropout = false;      // needs the unfused path
  bool share_pages = true;             // ranks of a host map one copy of the weights
  bool checkpoints = false;            // parameters and optimizer are copied, then written
  std::int64_t ranks_on_host = 1;      // of one shard group
  std::int64_t processes_on_host = 1;  // ranks of this job
  AttentionWork attention;
};

Runtime own_runtime(const OwnRuntime& own);

}  // namespace tutti::spec
