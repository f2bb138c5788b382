// A short list, searched from the front: most groups repeat a handful of requests.
#include "comm/plans.h"

#include <algorithm>

namespace tutti::comm {
namespace {

bool same(const schedule::CollectiveRequest& a, const schedule::CollectiveRequest& b) {
  return a.operation == b.operation && a.algorithm == b.algorithm && a.ranks == b.ranks &&
         a.elements == b.elements && a.counts == b.counts && a.root == b.root &&
         a.group == b.group && a.between == b.between && a.chunks == b.chunks && a.align == b.align;
}

}  // namespace

std::shared_ptr<const Plan> Plans::get(const schedule::CollectiveRequest& request, int rank) {
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const auto& plan) {
    return same(plan->schedule.request, request);
  });
  if (known != kept_.end()) {
    std::rotate(kept_.begin(), known, known + 1);
    return kept_.front();
  }
  auto plan = std::make_shared<Plan>();
  plan->schedule = schedule::generate(request);
  plan->steps = plan->schedule.list(rank);
  for (const schedule::CollectiveStep& step : plan->steps) {
    plan->adds_messages |= step.verb == schedule::Verb::RecvAdd;
  }
  if (kept_.size() == kKept) kept_.pop_back();
  kept_.insert(kept_.begin(), plan);
  return plan;
}

}  // namespace tutti::comm
