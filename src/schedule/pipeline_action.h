// What one pipeline rank does, in order. parallel::run_pipeline executes the list, sim prices it,
// report draws it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::schedule {

enum class Kind {
  Forward,
  BackwardInput,   // gradient of the chunk's input only (zero-bubble orders)
  BackwardWeight,  // the weights' gradients that BackwardInput queued
  Backward,        // both at once
  SendForward,     // activations to the next stage
  RecvForward,
  SendBackward,  // gradients to the previous stage
  RecvBackward,
};

/// One thing one rank does with one micro-batch on one of its chunks (virtual stages).
struct PipelineAction {
  Kind kind;
  int microbatch = 0;  // 0 <= microbatch < microbatches of the step
  int chunk = 0;       // 0 <= chunk < chunks of the rank
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

/// True for the kinds that keep the rank busy; false for sends and receives.
constexpr bool is_compute(Kind kind) { return kind <= Kind::Backward; }

/// "F", "I" (input gradient), "W" (weight gradient), "B" (both), "SF", "RF", "SB", "RB".
std::string_view name(Kind kind);

/// "F0", "B3", "I3.1": kind, micro-batch and, where the rank has several (chunks > 1), chunk.
std::string name(const PipelineAction& action, int chunks);

/// The order of a single stage: micro-batches in turn, each forward and backward. Nothing is kept
/// longer than needed, so one micro-batch's activations are alive at a time. Throws
/// std::invalid_argument unless microbatches >= 1.
std::vector<PipelineAction> one_stage(int microbatches);

/// Order in which chunks finish their last weight gradient: buckets are reduced in this order, so
/// it must be the same on every rank that runs this list. Entries are chunk numbers, each once;
/// chunks without a weight gradient are absent.
std::vector<int> completion_order(const std::vector<PipelineAction>& actions);

}  // namespace tutti::schedule
