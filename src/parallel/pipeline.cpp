// The executor of pipeline actions.
#include "parallel/pipeline.h"

#include <map>

#include "core/error.h"

namespace tutti::parallel {

double run_pipeline(const std::vector<schedule::PipelineAction>& actions, Stage& stage,
                    WeightGrads& weight_grads, const std::vector<MicroBatch>& batches,
                    std::vector<schedule::PipelineAction>* executed) {
  using schedule::Kind;
  double loss_sum = 0;
  for (const schedule::PipelineAction& action : actions) {
    switch (action.kind) {
      case Kind::Forward:
        loss_sum += stage.forward(action.microbatch, batches.at(action.microbatch)).item<double>();
        break;
      case Kind::Backward:
        weight_grads.defer(false);
        stage.backward(action.microbatch);
        weight_grads.microbatch_done();
        break;
      case Kind::BackwardInput:
        weight_grads.defer(true);
        stage.backward(action.microbatch);
        break;
      case Kind::BackwardWeight:
        weight_grads.run();
        weight_grads.microbatch_done();
        break;
      case Kind::SendForward:
      case Kind::RecvForward:
      case Kind::SendBackward:
      case Kind::RecvBackward:
        TUTTI_CHECK(false, "a single stage has nobody to {}", schedule::name(action.kind));
    }
    if (executed != nullptr) executed->push_back(action);
  }
  return loss_sum;
}

}  // namespace tutti::parallel
