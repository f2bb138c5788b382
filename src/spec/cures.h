// What makes a job fit that does not: the cheapest changes first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spec/memory.h"

namespace tutti::spec {

/// One change, made on top of those before it.
struct Cure {
  std::string change;    // "[batch] micro = 2"
  std::string override;  // "batch.micro=2": the same for the command line
  MemoryLayout layout;   // with it
  MemoryTerms terms;     // of the fullest rank with it
};

struct FitQuestion {
  const Graph& graph;
  const DecoderSizes& sizes;
  MemoryLayout layout;
  std::function<Runtime(const MemoryLayout&)> runtime;
  /// Bytes that one rank may have; more ranks on one host leave less for each.
  std::function<Count(const MemoryLayout&)> limit;
  // What may be proposed.
  bool recompute = true;
  int zero = 3;
  bool tp = true;
  bool pp = true;
};

bool fits(const FitQuestion& question, const MemoryLayout& layout);

/// In the order micro-batch (fewer sequences at once: nothing lost but efficiency), recompute (a
/// third more work), ZeRO (more communication), tp, pp (other ranks): the first value of each that
/// is enough, else its best one and on to the next; a change that turns out not to be needed is
/// left out. Empty if nothing is enough, or if the job fits already.
std::vector<Cure> cures(const FitQuestion& question);

/// The other way, for a job with one replica: the fewest replicas that share out parameters,
/// gradients and optimizer state (ZeRO 3) so that each fits. Empty if there are several already, if
/// they cannot share the micro-batches, or if no number up to 64 is enough.
std::optional<Cure> sharing_replicas(const FitQuestion& question);

}  // namespace tutti::spec
