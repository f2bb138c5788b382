// FLOPs of a training step under the conventions that public figures use. Mixing them moves an MFU
// by up to 40 %, so every printed utilisation names its convention.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "spec/graph.h"

namespace tutti::spec {

/// What the formulas are about. The letters of the comments: B sequences, s tokens, L layers, h
/// hidden, f inner width, a heads, g key heads, V vocabulary, N parameters.
struct FlopsQuestion {
  DecoderSizes sizes;
  double sequences = 1;  // of one step, B
  Count sequence = 1;    // s
};

/// A rule by name.
struct FlopsConvention {
  std::string_view name;
  std::string_view formula;  // per step
  std::string_view used_by;
  bool counts_recompute;  // the result is for an HFU
  double (*step)(const FlopsQuestion&);
};

/// model (the default: matrix products of the graph, causal attention in half), model_square,
/// megatron72, megatron96, megatron_causal, torchtitan, llmc, llmfoundry, dgxc, dgxc_mha.
const std::vector<FlopsConvention>& flops_conventions();

/// The rule of that name, or nullptr and a problem that names the nearest.
const FlopsConvention* flops_convention(std::string_view name,
                                        std::vector<core::Problem>& problems);

/// Operations of a whole training step as run on the hardware: forward, backward and what
/// `recompute` computes again. Causal attention counts as `attention` says.
double hardware_flops(const Graph& graph, Count sequence, double sequences, Attention attention,
                      Recompute recompute);

/// A share of the peak: flops / seconds / peak. Empty if the peak is unknown (0 or less). Throws
/// core::RunError above 1: the count, the time or the peak is wrong, and the text names them.
std::optional<double> utilisation(double flops_per_s, double peak_flops, std::string_view what);

}  // namespace tutti::spec
