// The rules, one function each.
#include "spec/flops.h"

#include <algorithm>
#include <optional>

#include "core/suggest.h"

namespace tutti::spec {
namespace {

struct Letters {
  double B, s, L, h, f, a, g, V;
};

Letters letters(const FlopsQuestion& question) {
  const DecoderSizes& m = question.sizes;
  return {question.sequences, question.sequence.real(), m.layers.real(),   m.hidden.real(),
          m.ffn.real(),       m.heads.real(),           m.kv_heads.real(), m.vocab.real()};
}

double parameters(const FlopsQuestion& q) { return decoder_graph(q.sizes).parameters().real(); }

double of_graph(const FlopsQuestion& q, Attention attention) {
  return q.sequences * decoder_graph(q.sizes).flops(q.sequence, attention).total().real();
}
double model(const FlopsQuestion& q) { return of_graph(q, Attention::CausalHalf); }
double model_square(const FlopsQuestion& q) { return of_graph(q, Attention::FullSquare); }

double megatron72(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  return 72 * B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
}

double megatron96(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  return 96 * B * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h));
}

double megatron_causal(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  const double input = q.sizes.tied ? 0 : V * h;
  return B * s * (6 * (parameters(q) - input) + 6 * L * h * s);
}

double torchtitan(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  return B * s * (6 * (parameters(q) - V * h) + 12 * L * h * s);
}

double llmc(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  return B * s * (6 * parameters(q) + 6 * L * h * s);
}

double llmfoundry(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  return B * s * (6 * parameters(q) + 12 * L * h * s);
}

double dgxc(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  const double mlp = q.sizes.gated ? 18 : 12;
  return B * s * (12 * L * h * h * (1 + g / a + s / h) + mlp * L * f * h + 6 * V * h);
}

double dgxc_mha(const FlopsQuestion& q) {
  const auto [B, s, L, h, f, a, g, V] = letters(q);
  return B * s * (24 * L * h * h + 12 * L * h * s + 48 * L * h * h + 6 * V * h);
}

}  // namespace

const std::vector<FlopsConvention>& flops_conventions() {
  static const std::vector<FlopsConvention> all = {
      {"model", "3 x the forward matrix products, causal attention in half", "tutti's mfu", false,
       model},
      {"model_square", "3 x the forward matrix products, whole score matrix",
       "torch.utils.flop_counter", false, model_square},
      {"megatron72", "72 B s L h^2 (1 + s/6h + V/12Lh)", "Korthikanti et al., Megatron-LM 2024",
       false, megatron72},
      {"megatron96", "96 B s L h^2 (1 + s/6h + V/16Lh)", "Narayanan et al., Megatron-LM 2021", true,
       megatron96},
      {"megatron_causal", "B s (6 (N without input embedding) + 6 L h s)", "Megatron-Bridge", false,
       megatron_causal},
      {"torchtitan", "B s (6 (N - V h) + 12 L h s)", "torchtitan", false, torchtitan},
      {"llmc", "B s (6 N + 6 L h s)", "llm.c", false, llmc},
      {"llmfoundry", "B s (6 N + 12 L h s)", "llm-foundry", false, llmfoundry},
      {"dgxc", "B s (12 L h^2 (1 + g/a + s/h) + 12 or 18 L f h + 6 V h)", "dgxc-benchmarking",
       false, dgxc},
      {"dgxc_mha", "B s (24 L h^2 + 12 L h s + 48 L h^2 + 6 V h)",
       "dgxc-benchmarking, older recipes", false, dgxc_mha},
  };
  return all;
}

const FlopsConvention* flops_convention(std::string_view name,
                                        std::vector<core::Problem>& problems) {
  std::vector<std::string> names;
  for (const FlopsConvention& convention : flops_conventions()) {
    if (convention.name == name) return &convention;
    names.emplace_back(convention.name);
  }
  const std::string near = core::nearest(name, names);
  problems.push_back({fmt::format("FLOP convention \"{}\" is not known{}. Known: {}.", name,
                                  near.empty() ? "" : " (did you mean \"" + near + "\"?)",
                                  fmt::join(names, ", "))});
  return nullptr;
}

double hardware_flops(const Graph& graph, Count sequence, double sequences, Attention attention,
                      Recompute recompute) {
  double again = 0;
  for (const LayerKind& kind : graph.blocks) {
    for (const Operation& operation : kind.operations) {
      const bool core = operation.role == Role::AttentionCore;
      if (recompute != Recompute::Full && !(recompute == Recompute::Core && core)) continue;
      again += kind.count.real() * flops(operation, sequence, sequence, attention).forward.real();
    }
  }
  return sequences * (graph.flops(sequence, attention).total().real() + again);
}

std::optional<double> utilisation(double flops_per_s, double peak_flops, std::string_view what) {
  if (!(peak_flops > 0)) return std::nullopt;
  const double share = flops_per_s / peak_flops;
  if (share > 1) {
    throw core::RunError(fmt::format(
        "{} = {:.1f} % of the peak: {:.4g} FLOP/s were counted where the device does {:.4g} at "
        "most, so the count, the step time or the peak is wrong. Measure the peak again.",
        what, 100 * share, flops_per_s, peak_flops));
  }
  return share;
}

}  // namespace tutti::spec
