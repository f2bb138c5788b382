// Plans of buckets: nothing lost, nothing twice, every cut where a block begins.
#include "parallel/bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

namespace tutti::parallel {
namespace {

// One element, less than 64 bytes, exactly one block, one block and a bit, many blocks.
std::vector<spec::Param> some_params() {
  std::vector<spec::Param> params;
  for (const std::int64_t elements : {1, 15, 4096, 4097, 50000, 7, 8192, 300, 12289}) {
    spec::Param param;
    param.name = "p" + std::to_string(params.size());
    param.shape = {elements};
    params.push_back(param);
  }
  return params;
}

template <class Check>
void for_each_plan(const Check& check) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const std::int64_t element_bytes : {4, 8}) {
      for (const std::int64_t bucket_bytes : {1, 40000, 1 << 30}) {  // one each, some, one in all
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << element_bytes << " and "
                                        << bucket_bytes << " bytes");
        const BucketOptions options{ranks, element_bytes, bucket_bytes};
        check(plan_buckets(some_params(), options), options);
      }
    }
  }
}

TEST(PlanBuckets, HoldsEveryParameterOnceInReverseOrder) {
  for_each_plan([](const std::vector<Bucket>& buckets, const BucketOptions& options) {
    std::vector<int> found;
    for (const Bucket& bucket : buckets) {
      for (const BucketParam& place : bucket.params) found.push_back(place.param);
    }
    EXPECT_EQ(found, (std::vector<int>{8, 7, 6, 5, 4, 3, 2, 1, 0}));
    if (options.bucket_bytes == 1) {
      EXPECT_EQ(buckets.size(), found.size());
    }
    if (options.bucket_bytes == 1 << 30) {
      EXPECT_EQ(buckets.size(), 1U);
    }
  });
}

TEST(PlanBuckets, MixNoLayersWhereTheyMustNot) {
  auto params = some_params();
  for (std::size_t i = 0; i < params.size(); ++i) params[i].layer = static_cast<int>(i / 2);
  for (const std::int64_t bytes : {1, 40000, 1 << 30}) {
    for (const Bucket& bucket :
         plan_buckets(params, {.ranks = 3, .bucket_bytes = bytes, .by_layer = true})) {
      for (const BucketParam& place : bucket.params) {
        EXPECT_EQ(params[place.param].layer, params[bucket.params.front().param].layer);
      }
    }
  }
}

// Every third parameter's gradient is partial over tensor-parallel ranks.
std::vector<spec::Param> some_partial() {
  auto params = some_params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    params[i].layer = static_cast<int>(i / 4);
    if (i % 3 == 0) params[i].grad_sum = {mesh::Axis::Dp, mesh::Axis::Tp};
  }
  return params;
}

TEST(PlanBuckets, KeepGradientsThatArePartialOverTpApart) {
  const auto params = some_partial();
  for (const bool by_layer : {false, true}) {
    for (const std::int64_t bytes : {1, 40000, 1 << 30}) {
      std::vector<int> found;
      for (const Bucket& bucket : plan_buckets(
               params, {.bucket_bytes = bytes, .by_layer = by_layer, .splits_rows = true})) {
        int last = static_cast<int>(params.size());
        for (const BucketParam& place : bucket.params) {
          EXPECT_EQ(bucket.partial_over_tp, params[place.param].grad_sum.contains(mesh::Axis::Tp));
          EXPECT_LT(place.param, last) << "in the order of readiness";
          last = place.param;
          EXPECT_TRUE(!by_layer ||
                      params[place.param].layer == params[bucket.params[0].param].layer);
          found.push_back(place.param);
        }
      }
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    }
  }
}

// A bucket is launched after those before it: it must not wait for a later one.
TEST(PlanBuckets, StandInTheOrderInWhichTheyAreFull) {
  for (const std::int64_t bytes : {1, 40000, 1 << 30}) {
    int full = 9;
    for (const Bucket& bucket :
         plan_buckets(some_partial(), {.bucket_bytes = bytes, .splits_rows = true})) {
      const int last = bucket.params.back().param;
      const bool at_the_end = bucket.elements * 4 < bytes;  // closed because nothing is left
      EXPECT_TRUE(at_the_end || last < full);
      if (!at_the_end) full = last;
    }
  }
}

TEST(PlanBuckets, PlacesAreAlignedAndDoNotOverlap) {
  const auto params = some_params();
  for_each_plan([&](const std::vector<Bucket>& buckets, const BucketOptions& options) {
    for (const Bucket& bucket : buckets) {
      std::int64_t end = 0;
      for (const BucketParam& place : bucket.params) {
        EXPECT_EQ(place.offset * options.element_bytes % 64, 0);
        EXPECT_GE(place.offset, end);
        end = place.offset + params[place.param].elements();
      }
      EXPECT_GE(bucket.elements, end);
      EXPECT_LT((bucket.elements - end) * options.element_bytes, 64);
    }
  });
}

TEST(PlanBuckets, ClosesAtTheSizeAndNotBefore) {
  for_each_plan([&](const std::vector<Bucket>& buckets, const BucketOptions& options) {
    for (const Bucket& bucket : buckets) {
      const std::int64_t without_last = bucket.params.back().offset * options.element_bytes;
      EXPECT_LT(without_last, options.bucket_bytes);
      if (&bucket == &buckets.back()) continue;
      EXPECT_GE(bucket.elements * options.element_bytes, options.bucket_bytes);
    }
  });
}

TEST(PlanBuckets, ShardsCoverTheBucketAndEndWhereBlocksBegin) {
  for_each_plan([](const std::vector<Bucket>& buckets, const BucketOptions& options) {
    for (const Bucket& bucket : buckets) {
      ASSERT_EQ(bucket.shard_counts.size(), static_cast<std::size_t>(options.ranks));
      std::int64_t end = 0;
      for (const std::int64_t count : bucket.shard_counts) {
        EXPECT_GE(count, 0);
        EXPECT_LT(count, bucket.elements / options.ranks + 2 * kBlockElements);
        end += count;
        EXPECT_TRUE(end == bucket.elements || std::ranges::count(bucket.block_starts, end) == 1);
      }
      EXPECT_EQ(end, bucket.elements);
    }
  });
}

// Blocks are numbered through all parameters in model order, whatever the buckets.
TEST(PlanBuckets, BlocksHaveTheNumberOfTheirPlaceInTheModel) {
  const auto params = some_params();
  std::vector<int> first_block;
  int total = 0;
  for (const spec::Param& param : params) {
    first_block.push_back(total);
    for (std::int64_t done = 0; done < param.elements(); done += kBlockElements) ++total;
  }
  EXPECT_EQ(num_blocks(params), total);
  for_each_plan([&](const std::vector<Bucket>& buckets, const BucketOptions&) {
    std::map<int, int> seen;
    for (const Bucket& bucket : buckets) {
      ASSERT_EQ(bucket.blocks.size(), bucket.block_starts.size());
      EXPECT_TRUE(std::ranges::is_sorted(bucket.block_starts));
      for (const BucketParam& place : bucket.params) {
        for (std::int64_t done = 0; done < params[place.param].elements(); done += kBlockElements) {
          const auto at = std::ranges::find(bucket.block_starts, place.offset + done);
          ASSERT_NE(at, bucket.block_starts.end());
          const int block = bucket.blocks[at - bucket.block_starts.begin()];
          EXPECT_EQ(block, first_block[place.param] + done / kBlockElements);
          ++seen[block];
        }
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(total));
  });
}

TEST(PlanBuckets, RefusesOptionsThatAreNotPositive) {
  EXPECT_THROW(plan_buckets({}, {.ranks = 0}), std::invalid_argument);
  EXPECT_THROW(plan_buckets({}, {.element_bytes = 0}), std::invalid_argument);
  EXPECT_THROW(plan_buckets({}, {.bucket_bytes = 0}), std::invalid_argument);
}

TEST(OwnedSlices, OfAllRanksCoverEveryElementOnce) {
  const auto params = some_params();
  for_each_plan([&](const std::vector<Bucket>& buckets, const BucketOptions& options) {
    std::vector<std::vector<int>> owners;
    for (const spec::Param& param : params) owners.emplace_back(param.elements(), 0);
    for (int rank = 0; rank < options.ranks; ++rank) {
      for (const OwnedSlice& owned : owned_slices(params, buckets, rank)) {
        const auto& places = buckets[owned.bucket].params;
        const auto place = std::ranges::find(places, owned.param, &BucketParam::param);
        ASSERT_NE(place, places.end());
        EXPECT_EQ(owned.offset, place->offset + owned.slice.first);
        for (std::int64_t i = 0; i < owned.slice.count; ++i)
          ++owners[owned.param].at(owned.slice.first + i);
      }
    }
    for (const auto& counts : owners)
      EXPECT_EQ(std::ranges::count(counts, 1), static_cast<std::ptrdiff_t>(counts.size()));
  });
}

TEST(ChooseBucketBytes, IsTenLaunchesWorthWithinItsLimits) {
  EXPECT_EQ(choose_bucket_bytes(1e-3, 1e9), 10'000'000);
  EXPECT_EQ(choose_bucket_bytes(1e-6, 1e9), 256 << 10);
  EXPECT_EQ(choose_bucket_bytes(1, 1e9), 64 << 20);
  EXPECT_EQ(choose_bucket_bytes(1e-3, 0), 256 << 10);
}

}  // namespace
}  // namespace tutti::parallel
