// A pipeline order as data: what every stage does, where chunks live, and how many buffers each
// edge has. parallel::run_pipeline executes it, pipeline_simulate prices it, pipeline_verify proves
// it, pipeline_draw draws it.
#pragma once

#include <string>
#include <vector>

#include "schedule/pipeline_action.h"

namespace tutti::schedule {

/// How the model's positions are dealt out to stages. A position is one chunk of layers, counted
/// along the model: 0 <= position < stages * chunks.
enum class Placement {
  Looped,  // chunk c of stage s is position c * stages + s
  V,       // odd chunks run backwards: stage 0 holds the first and (chunks = 2) the last position
};

/// What a schedule is made for.
struct PipelineShape {
  int stages = 1;        // pipeline ranks
  int microbatches = 1;  // of one step
  int chunks = 1;        // per stage
  Placement placement = Placement::Looped;
  [[nodiscard]] int positions() const { return stages * chunks; }
  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// Where a position lives.
struct Place {
  int stage = 0;
  int chunk = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

int position_of(const PipelineShape& shape, Place place);
Place place_of(const PipelineShape& shape, int position);

/// An edge is one direction over the border between two neighbouring positions; its number is
///   2b      activations from position b to b + 1
///   2b + 1  gradients from position b + 1 to b
/// Each edge is a FIFO: the n-th send meets the n-th receive. An edge whose two positions live on
/// one stage (the turn of a V, a single stage) carries no messages.
int num_edges(const PipelineShape& shape);
Place edge_sender(const PipelineShape& shape, int edge);
Place edge_receiver(const PipelineShape& shape, int edge);
bool edge_is_local(const PipelineShape& shape, int edge);

/// "0>1", or "3.0>0.1" where stages have several chunks: sender and receiver.
std::string edge_name(const PipelineShape& shape, int edge);

/// The edge that a send or receive of `stage` uses. Throws std::invalid_argument if there is none:
/// not a send or receive, chunk out of range, or the first position's predecessor or last
/// position's successor is meant.
int edge_of(const PipelineShape& shape, int stage, const PipelineAction& action);

/// Busy time of one micro-batch on one position, any unit.
struct ActionTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  [[nodiscard]] double of(
      Kind kind) const;  // Backward is the sum of its halves; 0 for sends and receives
  [[nodiscard]] double total() const { return forward + backward_input + backward_weight; }
};

/// Times of a whole pipeline. A transfer delays the receiver and keeps nobody busy.
struct PipelineTimes {
  std::vector<ActionTimes> positions;  // one per position
  double transfer = 0;                 // of one message over one edge that is not local
};

/// Every stage takes `stage` for one micro-batch, shared evenly by its chunks.
PipelineTimes even_times(const PipelineShape& shape, const ActionTimes& stage, double transfer = 0);

/// Stage s takes stages[s], shared evenly by its chunks. Throws std::invalid_argument unless there
/// is one per stage.
PipelineTimes stage_times(const PipelineShape& shape, const std::vector<ActionTimes>& stages,
                          double transfer = 0);

/// The schedule object.
struct PipelineSchedule {
  std::string name;
  PipelineShape shape;
  std::vector<std::vector<PipelineAction>> actions;  // [stage], sends and receives included
  /// [edge]: buffers that the receiver owns. A send takes one, the receiver's weight gradient of
  /// that micro-batch gives it back (it needs the stage's input and the output's gradient until
  /// then). 0 for local edges.
  std::vector<int> slots;
  /// Share of a micro-batch's activations that is still held between its input gradient and its
  /// weight gradient. 1 counts everything until the weight gradient is done; see kKeptForWeights.
  double kept_for_weights = 1;
};

/// The published searched orders free what only the input gradient needs: of (34 + 5as/h) s b h
/// bytes per layer 32 s b h stay for the weight gradient (attention without a fused core, heads *
/// sequence / width = 8): 32 / 74.
inline constexpr double kKeptForWeights = 32.0 / 74.0;

/// Micro-batches whose activations one chunk holds at most: from the end of its forward to the end
/// of its weight gradient. Depends on the order only.
int peak_inflight(const std::vector<PipelineAction>& actions, int chunk);

/// Activations a whole stage holds at most, in micro-batches of the whole stage (a chunk counts 1 /
/// chunks). Between input and weight gradient a micro-batch counts schedule.kept_for_weights.
double peak_activations(const PipelineSchedule& schedule, int stage);

/// Largest of all stages.
double peak_activations(const PipelineSchedule& schedule);

/// Completes compute lists to a schedule: a receive directly before the action that needs it, a
/// send directly after the action that makes it, min(peak_inflight + 1, microbatches) slots on each
/// edge: one more than the receiver holds, so that a message can travel while the receiver is full.
/// Throws std::invalid_argument unless there is one list per stage and chunks are in range.
PipelineSchedule complete(std::string name, const PipelineShape& shape,
                          const std::vector<std::vector<PipelineAction>>& compute);

/// Slots of each edge for lists that have their sends and receives (see `complete`).
std::vector<int> default_slots(const PipelineShape& shape,
                               const std::vector<std::vector<PipelineAction>>& actions);

}  // namespace tutti::schedule
