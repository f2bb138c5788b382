// Buckets filled in the order of readiness, cut into shards at block boundaries.
#include "parallel/bucket.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tutti::parallel {
namespace {

constexpr std::int64_t kAlignBytes = 64;

std::int64_t blocks_of(const spec::Param& param) {
  return (param.elements() + kBlockElements - 1) / kBlockElements;
}

// The block start nearest to each rank's fair share: shards differ by less than a block.
std::vector<std::int64_t> cut(const Bucket& bucket, int ranks) {
  std::vector<std::int64_t> counts;
  std::int64_t begin = 0;
  for (int rank = 1; rank <= ranks; ++rank) {
    std::int64_t end = bucket.elements;
    if (rank < ranks) {
      const std::int64_t fair = bucket.elements * rank / ranks;
      const auto above =
          std::lower_bound(bucket.block_starts.begin(), bucket.block_starts.end(), fair);
      end = above == bucket.block_starts.end() ? bucket.elements : *above;
      if (above != bucket.block_starts.begin() && fair - *(above - 1) <= end - fair)
        end = *(above - 1);
      end = std::max(end, begin);
    }
    counts.push_back(end - begin);
    begin = end;
  }
  return counts;
}

std::string label_of(const std::vector<spec::Param>& params, const Bucket& bucket,
                     std::size_t number) {
  const std::string& first = params[bucket.params.back().param].name;  // in model order
  const std::string& last = params[bucket.params.front().param].name;
  return "bucket " + std::to_string(number) + " (" + first + (first == last ? "" : " ... " + last) +
         ")";
}

}  // namespace

std::vector<Bucket> plan_buckets(const std::vector<spec::Param>& params,
                                 const BucketOptions& options) {
  if (options.ranks < 1 || options.element_bytes < 1 || options.bucket_bytes < 1) {
    throw std::invalid_argument(
        "plan_buckets: ranks, element_bytes and bucket_bytes must be positive");
  }
  const std::int64_t align = std::max<std::int64_t>(1, kAlignBytes / options.element_bytes);
  std::vector<std::int64_t> first_block(params.size() + 1, 0);
  for (std::size_t i = 0; i < params.size(); ++i)
    first_block[i + 1] = first_block[i] + blocks_of(params[i]);

  std::vector<Bucket> buckets;
  Bucket whole, partial;  // being filled
  partial.partial_over_tp = true;
  const auto close = [&](Bucket& bucket) {
    if (bucket.params.empty()) return;
    bucket.shard_counts = cut(bucket, options.ranks);
    bucket.label = label_of(params, bucket, buckets.size());
    const bool over_tp = bucket.partial_over_tp;
    buckets.push_back(std::exchange(bucket, {}));
    bucket.partial_over_tp = over_tp;
  };
  for (int param = static_cast<int>(params.size()) - 1; param >= 0; --param) {
    const spec::Param& each = params[param];
    const bool other_layer = static_cast<std::size_t>(param) + 1 < params.size() &&
                             params[param + 1].layer != each.layer;
    if (options.by_layer && other_layer) {
      close(whole);
      close(partial);
    }
    const bool apart = options.splits_rows && each.grad_sum.contains(mesh::Axis::Tp);
    Bucket& bucket = apart ? partial : whole;
    bucket.params.push_back({param, bucket.elements});
    for (std::int64_t block = 0; block < blocks_of(each); ++block) {
      bucket.block_starts.push_back(bucket.elements + block * kBlockElements);
      bucket.blocks.push_back(static_cast<int>(first_block[param] + block));
    }
    bucket.elements += (each.elements() + align - 1) / align * align;
    if (bucket.elements * options.element_bytes >= options.bucket_bytes) close(bucket);
  }
  close(whole);
  close(partial);
  return buckets;
}

std::int64_t shard_begin(const Bucket& bucket, int rank) {
  return std::accumulate(bucket.shard_counts.begin(), bucket.shard_counts.begin() + rank,
                         std::int64_t{0});
}

std::vector<OwnedSlice> owned_slices(const std::vector<spec::Param>& params,
                                     const std::vector<Bucket>& buckets, int rank) {
  std::vector<OwnedSlice> owned;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    const std::int64_t begin = shard_begin(bucket, rank);
    const std::int64_t end = begin + bucket.shard_counts[rank];
    for (const BucketParam& place : bucket.params) {
      const std::int64_t from = std::max(begin, place.offset);
      const std::int64_t to = std::min(end, place.offset + params[place.param].elements());
      if (from >= to) continue;
      owned.push_back({static_cast<int>(b), from, place.param, {from - place.offset, to - from}});
    }
  }
  std::sort(owned.begin(), owned.end(), [](const OwnedSlice& a, const OwnedSlice& b) {
    return a.param < b.param;  // one rank owns one range of a parameter
  });
  return owned;
}

std::int64_t choose_bucket_bytes(double latency_s, double bytes_per_s) {
  constexpr double kSmallest = 256.0 * 1024;
  constexpr double kLargest = 64.0 * 1024 * 1024;
  return static_cast<std::int64_t>(std::clamp(10 * latency_s * bytes_per_s, kSmallest, kLargest));
}

std::int64_t num_blocks(const std::vector<spec::Param>& params) {
  std::int64_t sum = 0;
  for (const spec::Param& param : params) sum += blocks_of(param);
  return sum;
}

}  // namespace tutti::parallel
