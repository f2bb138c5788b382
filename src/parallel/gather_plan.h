// ZeRO 3 with private shards: which buckets a layer reads, and where in memory they are gathered.
// Pure: a plan, no memory.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/bucket.h"

namespace tutti::parallel {

/// A place for one gathered bucket, used by one layer after the other.
struct GatherPlan {
  std::vector<std::vector<int>> buckets_of_layer;  // per layer of the stage, in order of need
  std::vector<int> slot_of_bucket;
  std::vector<std::int64_t> slot_elements;
};

/// `reads[i]`: the parameters of the stage's layer i. Layers whose buckets have the same sizes take
/// turns in `window` places (>= 2: one is read while the next arrives); a bucket that several
/// layers read, and one whose size is its own, has a place to itself. Throws std::invalid_argument
/// for a window below 2, and if a bucket is read by no layer.
GatherPlan plan_gathers(const std::vector<std::vector<int>>& reads,
                        const std::vector<Bucket>& buckets, int window);

}  // namespace tutti::parallel
