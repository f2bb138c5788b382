// The other two walls beside memory: how long the operations take, and how long it takes to move
// the weights once. Arithmetic for `tutti memory` and docs/three-walls.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "spec/graph.h"

namespace tutti::spec {

struct WallsQuestion {
  std::optional<double> tokens;      // of the whole training
  std::optional<double> peak_flops;  // of one device, FLOP/s
  double utilisation = 1;            // share of the peak that is reached
  std::optional<double> bandwidth;   // bytes per second between the weights and the device
  Count sequence = 1;
  int weight_bytes = 2;
};

/// Seconds that one device computes. Both must be known.
double compute_seconds(const Graph& graph, const WallsQuestion& question);

/// Seconds to move every weight once.
double move_seconds(const Graph& graph, const WallsQuestion& question);

/// What a use of the device is asked for: in range, and tokens with a peak.
std::vector<core::Problem> check(const WallsQuestion& question);

/// A line per number: the weights' bytes, one token's operations, and what else is asked for.
std::string describe(const Graph& graph, const WallsQuestion& question);

}  // namespace tutti::spec
