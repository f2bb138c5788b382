// Counts of the graph over rates.
#include "spec/walls.h"

#include "core/error.h"
#include "core/units.h"

namespace tutti::spec {
namespace {

double flops_per_token(const Graph& graph, Count sequence) {
  return graph.flops(sequence, Attention::CausalHalf).total().real() / sequence.real();
}

double weight_bytes(const Graph& graph, const WallsQuestion& question) {
  return graph.parameters().real() * question.weight_bytes;
}

// format_seconds knows minutes; trainings last longer.
std::string duration(double seconds) {
  constexpr double kDay = 86400;
  constexpr double kYear = 365.25 * kDay;
  if (seconds >= kYear) return fmt::format("{:.1f} years", seconds / kYear);
  if (seconds >= 2 * kDay) return fmt::format("{:.1f} days", seconds / kDay);
  return core::format_seconds(seconds);
}

}  // namespace

double compute_seconds(const Graph& graph, const WallsQuestion& question) {
  return flops_per_token(graph, question.sequence) * question.tokens.value() /
         (question.peak_flops.value() * question.utilisation);
}

double move_seconds(const Graph& graph, const WallsQuestion& question) {
  return weight_bytes(graph, question) / question.bandwidth.value();
}

std::vector<core::Problem> check(const WallsQuestion& question) {
  std::vector<core::Problem> problems;
  const auto positive = [&](const char* name, const std::optional<double>& value) {
    if (!value || *value > 0) return;
    problems.push_back({fmt::format("{} {} is not above 0. Write it like 312e12.", name, *value)});
  };
  positive("--tokens", question.tokens);
  positive("--peak-flops", question.peak_flops);
  positive("--bandwidth", question.bandwidth);
  if (!(question.utilisation > 0 && question.utilisation <= 1)) {
    problems.push_back({fmt::format(
        "--utilisation {} is not above 0 and at most 1: it is a share of the peak. Write it like "
        "0.45.",
        question.utilisation)});
  }
  if (question.tokens.has_value() != question.peak_flops.has_value()) {
    problems.push_back(
        {"--tokens and --peak-flops belong together: one says how much is computed, the other how "
         "fast. Give both."});
  }
  return problems;
}

std::string describe(const Graph& graph, const WallsQuestion& question) {
  std::string text = fmt::format(
      "weights     {:.4g} GB in {} bytes each\n"
      "operations  {:.4g} GFLOP per token, forward and backward (model FLOPs, causal attention in "
      "half)\n",
      weight_bytes(graph, question) / 1e9, question.weight_bytes,
      flops_per_token(graph, question.sequence) / 1e9);
  if (question.tokens && question.peak_flops) {
    text += fmt::format(
        "training    {:.4g} tokens on one device at {:.4g} FLOP/s, {:.3g} % of it reached: {}\n",
        *question.tokens, *question.peak_flops, 100 * question.utilisation,
        duration(compute_seconds(graph, question)));
  }
  if (question.bandwidth) {
    text += fmt::format("movement    all weights once at {:.4g} GB/s: {}\n",
                        *question.bandwidth / 1e9, duration(move_seconds(graph, question)));
  }
  return text;
}

}  // namespace tutti::spec
