// zb-h1 and zb-h2 differ in two numbers per stage; zb-v has its own phases.
#include "schedule/zero_bubble.h"

#include <algorithm>

#include "schedule/pipeline_check.h"

namespace tutti::schedule {
namespace {

/// One stage: `ahead` forwards, then input gradient, weight gradient of `late` micro-batches ago
/// and the next forward.
std::vector<PipelineAction> late_weights(int microbatches, int ahead, int late) {
  std::vector<PipelineAction> list;
  list.reserve(3 * static_cast<std::size_t>(microbatches));
  for (int k = 0; k < std::min(ahead, microbatches); ++k) list.push_back({Kind::Forward, k});
  for (int k = 0; k < microbatches; ++k) {
    list.push_back({Kind::BackwardInput, k});
    if (k >= late) list.push_back({Kind::BackwardWeight, k - late});
    if (k + ahead < microbatches) list.push_back({Kind::Forward, k + ahead});
  }
  for (int k = std::max(0, microbatches - late); k < microbatches; ++k) {
    list.push_back({Kind::BackwardWeight, k});
  }
  return list;
}

/// Appends the next micro-batch of a kind and chunk, as long as there is one.
class Turns {
 public:
  explicit Turns(int microbatches) : microbatches_(microbatches) {}
  bool left(Kind kind, int chunk) const { return done(kind, chunk) < microbatches_; }
  void add(Kind kind, int chunk) {
    int& next = done_[static_cast<int>(kind)][chunk];
    if (next < microbatches_) list_.push_back({kind, next++, chunk});
  }
  int done(Kind kind, int chunk) const { return done_[static_cast<int>(kind)][chunk]; }
  std::vector<PipelineAction> take() { return std::move(list_); }

 private:
  int microbatches_;
  int done_[3][2] = {};  // [Forward, BackwardInput, BackwardWeight][chunk]
  std::vector<PipelineAction> list_;
};

/// One stage of zb-v.
std::vector<PipelineAction> v_stage(int stages, int stage, int microbatches) {
  constexpr Kind F = Kind::Forward, I = Kind::BackwardInput, W = Kind::BackwardWeight;
  Turns turns(microbatches);
  // The first micro-batch travels down the V and comes back 2(p-i)-1 forwards later.
  for (int n = 0; n < 2 * (stages - stage) - 1; ++n) turns.add(F, 0);
  for (int n = 0; n < stage; ++n) {
    turns.add(F, 1);
    turns.add(F, 0);
  }
  const auto group = [&](int chunk) {
    turns.add(F, chunk);
    turns.add(I, chunk);
    turns.add(W, chunk);
  };
  for (int n = 0; n < stages - stage; ++n) group(1);
  while (turns.left(F, 1) || turns.left(F, 0)) {
    group(0);
    group(1);
  }
  // Nothing is left to run forward: input gradients first, since other stages wait for them.
  for (int n = 0; n < stage; ++n) {
    turns.add(I, 0);
    turns.add(I, 1);
  }
  while (turns.left(I, 0) || turns.left(I, 1)) {
    turns.add(I, 0);
    turns.add(W, 0);
    turns.add(I, 1);
  }
  while (turns.left(W, 1)) turns.add(W, 1);
  while (turns.left(W, 0)) turns.add(W, 0);
  return turns.take();
}

}  // namespace

PipelineSchedule zb_h1(int stages, int microbatches) {
  const PipelineShape shape{stages, microbatches, 1};
  check_shape(shape);
  std::vector<std::vector<PipelineAction>> compute;
  for (int stage = 0; stage < stages; ++stage) {
    compute.push_back(late_weights(microbatches, stages - stage, stage));
  }
  return complete("zb-h1", shape, compute);
}

PipelineSchedule zb_h2(int stages, int microbatches) {
  const PipelineShape shape{stages, microbatches, 1};
  check_shape(shape);
  std::vector<std::vector<PipelineAction>> compute;
  for (int stage = 0; stage < stages; ++stage) {
    compute.push_back(late_weights(microbatches, 2 * (stages - stage) - 1, 2 * stage));
  }
  return complete("zb-h2", shape, compute);
}

PipelineSchedule zb_v(int stages, int microbatches) {
  const PipelineShape shape{stages, microbatches, 2, Placement::V};
  check_shape(shape);
  std::vector<std::vector<PipelineAction>> compute;
  for (int stage = 0; stage < stages; ++stage) {
    compute.push_back(v_stage(stages, stage, microbatches));
  }
  return complete("zb-v", shape, compute);
}

}  // namespace tutti::schedule
