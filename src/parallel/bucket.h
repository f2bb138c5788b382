// Which parameters share a bucket, where they lie in it, and which rank owns which part. Pure: a
// plan, no memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/reshard.h"
#include "spec/param.h"

namespace tutti::parallel {

/// Statistics of gradients are kept per this many elements of each *global* parameter, so that a
/// norm does not depend on buckets, ranks or shards. Shards end where blocks do.
inline constexpr std::int64_t kBlockElements = 4096;

/// A parameter's place in its bucket. Elements, a multiple of 64 bytes from the bucket's start.
struct BucketParam {
  int param = 0;
  std::int64_t offset = 0;
};

struct Bucket {
  bool partial_over_tp = false;     // its gradients are to be added up over tensor-parallel ranks
  std::vector<BucketParam> params;  // in the order in which their gradients become ready
  std::int64_t elements = 0;        // padding included
  std::vector<std::int64_t>
      block_starts;         // ascending; a parameter's padding belongs to its last block
  std::vector<int> blocks;  // global number of each block: all parameters in model order
  std::vector<std::int64_t>
      shard_counts;   // elements each rank owns, in rank order; their sum is `elements`
  std::string label;  // "bucket 3 (blocks.7.fc.weight ... blocks.7.proj.bias)"
};

/// A piece of one parameter that a rank owns.
struct OwnedSlice {
  int bucket = 0;
  std::int64_t offset = 0;  // elements into the bucket
  int param = 0;
  mesh::FlatSlice slice;  // of the parameter, row-major
};

struct BucketOptions {
  int ranks = 1;
  std::int64_t element_bytes = 4;       // of a gradient
  std::int64_t bucket_bytes = 1 << 20;  // a bucket closes at or above this size
  bool by_layer = false;                // and where another layer begins
  bool splits_rows = false;  // sequence parallelism: gradients that are partial over tp stand apart
};

/// Buckets over `params` in reverse order: what forward uses last is ready first. Buckets stand in
/// the order in which they are full.
/// Throws std::invalid_argument for options that are not positive.
std::vector<Bucket> plan_buckets(const std::vector<spec::Param>& params,
                                 const BucketOptions& options);

/// Elements of the bucket that the ranks before `rank` own.
std::int64_t shard_begin(const Bucket& bucket, int rank);

/// What `rank` owns, in model order; padding left out.
std::vector<OwnedSlice> owned_slices(const std::vector<spec::Param>& params,
                                     const std::vector<Bucket>& buckets, int rank);

/// The size at which a bucket closes: its transfer takes at least ten times the cost of launching
/// it, given a reduction's measured latency and rate (bytes per second; 0: nothing is transferred).
/// At least 256 KiB, at most 64 MiB.
std::int64_t choose_bucket_bytes(double latency_s, double bytes_per_s);

/// Blocks of all parameters.
std::int64_t num_blocks(const std::vector<spec::Param>& params);

}  // namespace tutti::parallel
