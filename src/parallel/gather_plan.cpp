// Places for gathered buckets.
#include "parallel/gather_plan.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace tutti::parallel {
namespace {

std::vector<int> buckets_of_params(const std::vector<Bucket>& buckets) {
  std::vector<int> of;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const BucketParam& place : buckets[b].params) {
      of.resize(std::max(of.size(), static_cast<std::size_t>(place.param) + 1), -1);
      of[place.param] = static_cast<int>(b);
    }
  }
  return of;
}

}  // namespace

GatherPlan plan_gathers(const std::vector<std::vector<int>>& reads,
                        const std::vector<Bucket>& buckets, int window) {
  if (window < 2) throw std::invalid_argument("plan_gathers: a window below 2 layers");
  const std::vector<int> bucket_of = buckets_of_params(buckets);
  GatherPlan plan;
  std::vector<int> readers(buckets.size(), 0);
  for (const std::vector<int>& params : reads) {
    std::vector<int> of_layer;
    for (const int param : params) {
      const int bucket = bucket_of.at(param);
      if (std::count(of_layer.begin(), of_layer.end(), bucket) == 0) of_layer.push_back(bucket);
    }
    for (const int bucket : of_layer) ++readers[bucket];
    plan.buckets_of_layer.push_back(std::move(of_layer));
  }
  if (std::count(readers.begin(), readers.end(), 0) > 0) {
    throw std::invalid_argument("plan_gathers: a bucket that no layer reads");
  }
  plan.slot_of_bucket.resize(buckets.size(), -1);
  const auto add_slot = [&](std::int64_t elements) {
    plan.slot_elements.push_back(elements);
    return static_cast<int>(plan.slot_elements.size()) - 1;
  };
  // Layers alike: by the sizes of their buckets. Turn t of them uses the places of turn t - window.
  std::map<std::vector<std::int64_t>, std::vector<std::vector<int>>> turns;
  for (const std::vector<int>& of_layer : plan.buckets_of_layer) {
    const bool alone = std::all_of(of_layer.begin(), of_layer.end(),
                                   [&](int bucket) { return readers[bucket] == 1; });
    if (!alone) continue;
    std::vector<std::int64_t> sizes;
    for (const int bucket : of_layer) sizes.push_back(buckets[bucket].elements);
    std::vector<std::vector<int>>& taken = turns[sizes];
    const std::size_t turn = taken.size();
    std::vector<int> slots;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      slots.push_back(turn < static_cast<std::size_t>(window) ? add_slot(sizes[i])
                                                              : taken[turn - window][i]);
      plan.slot_of_bucket[of_layer[i]] = slots.back();
    }
    taken.push_back(std::move(slots));
  }
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (plan.slot_of_bucket[b] < 0) plan.slot_of_bucket[b] = add_slot(buckets[b].elements);
  }
  return plan;
}

}  // namespace tutti::parallel
