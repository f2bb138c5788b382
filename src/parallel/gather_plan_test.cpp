// Places of gathered buckets: enough, never shared by two layers that are held at once.
#include "parallel/gather_plan.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace tutti::parallel {
namespace {

Bucket bucket(std::vector<int> params, std::int64_t elements) {
  Bucket made;
  for (const int param : params) made.params.push_back({param, 0});
  made.elements = elements;
  return made;
}

// A tied model: 0 is the embedding, which the head (6) reads again; blocks 1-5 of two buckets each,
// the last of another size.
struct Tied {
  Tied() {
    buckets.push_back(bucket({0}, 1000));
    reads.push_back({0});
    for (int block = 0; block < 5; ++block) {
      const int param = 1 + 2 * block;
      buckets.push_back(bucket({param}, block == 4 ? 90 : 80));
      buckets.push_back(bucket({param + 1}, 20));
      reads.push_back({param + 1, param});  // in another order than the buckets
    }
    buckets.push_back(bucket({11}, 7));
    reads.push_back({11, 0});
  }
  std::vector<Bucket> buckets;
  std::vector<std::vector<int>> reads;
};

TEST(GatherPlan, HasAPlaceOfTheRightSizeForEveryBucket) {
  const Tied tied;
  for (int window = 2; window <= 6; ++window) {
    const GatherPlan plan = plan_gathers(tied.reads, tied.buckets, window);
    ASSERT_EQ(plan.slot_of_bucket.size(), tied.buckets.size());
    for (std::size_t b = 0; b < tied.buckets.size(); ++b) {
      EXPECT_EQ(plan.slot_elements.at(plan.slot_of_bucket[b]), tied.buckets[b].elements);
    }
  }
}

TEST(GatherPlan, KeepsNeighboursApart) {
  const Tied tied;
  for (int window = 2; window <= 6; ++window) {
    const GatherPlan plan = plan_gathers(tied.reads, tied.buckets, window);
    const auto& layers = plan.buckets_of_layer;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(layers.size(), i + window); ++j) {
        for (const int a : layers[i]) {
          for (const int b : layers[j]) {
            EXPECT_TRUE(a == b || plan.slot_of_bucket[a] != plan.slot_of_bucket[b])
                << "layers " << i << " and " << j;
          }
        }
      }
    }
  }
}

TEST(GatherPlan, TakesNoMorePlacesThanTheWindow) {
  const Tied tied;
  // Two places of two buckets for the equal blocks, the odd block's two, embedding and last norm.
  EXPECT_EQ(plan_gathers(tied.reads, tied.buckets, 2).slot_elements.size(), 2 * 2 + 2 + 2U);
  EXPECT_EQ(plan_gathers(tied.reads, tied.buckets, 9).slot_elements.size(), tied.buckets.size());
}

TEST(GatherPlan, SharedBucketsHaveAPlaceToThemselves) {
  const Tied tied;
  const GatherPlan plan = plan_gathers(tied.reads, tied.buckets, 2);
  const std::multiset<int> slots(plan.slot_of_bucket.begin(), plan.slot_of_bucket.end());
  EXPECT_EQ(slots.count(plan.slot_of_bucket[0]), 1U);
  EXPECT_EQ(plan.buckets_of_layer.back(), (std::vector<int>{11, 0}));
}

TEST(GatherPlan, RefusesWhatCannotWork) {
  Tied tied;
  EXPECT_THROW(plan_gathers(tied.reads, tied.buckets, 1), std::invalid_argument);
  tied.reads.pop_back();
  EXPECT_THROW(plan_gathers(tied.reads, tied.buckets, 2), std::invalid_argument);
}

}  // namespace
}  // namespace tutti::parallel
