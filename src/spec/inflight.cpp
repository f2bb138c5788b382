// One line per order. Stage i of p runs its last warm-up forward and its first backward in turn, so
// the peak is the warm-up plus one.
#include "spec/inflight.h"

#include <algorithm>

namespace tutti::spec {

std::optional<double> peak_inflight(const PipelineQuestion& question, std::int64_t stage) {
  const std::int64_t p = question.stages;
  const std::int64_t m = question.microbatches;
  const std::int64_t v = question.chunks;
  const std::string_view name = question.schedule;
  const auto at_most_m = [&](double peak) { return std::min(peak, static_cast<double>(m)); };
  if (p == 1 && name != "gpipe" && name != "zb-auto" && v == 1) return 1;
  if (name == "none") return 1;
  if (name == "gpipe") return static_cast<double>(m);
  if (name == "1f1b" || (name == "interleaved" && v == 1)) {
    return at_most_m(static_cast<double>(p - stage));
  }
  if (name == "interleaved") {
    const std::int64_t warm_up = 2 * (p - 1 - stage) + (v - 1) * p;
    return static_cast<double>(std::min(m * v, warm_up + 1)) / static_cast<double>(v);
  }
  // Weight gradients run i micro-batches late on stage i (zb-h1), 2i (zb-h2).
  if (name == "zb-h1") return at_most_m(static_cast<double>(p));
  if (name == "zb-h2") return at_most_m(static_cast<double>(2 * p - 1));
  if (name == "zb-v") return at_most_m(static_cast<double>(p));
  // Searched orders under a limit of p and 2p micro-batches: zb-h1's with what waits for weight
  // gradients counted by its share, and every stage filled.
  if (name == "zb-1p") {
    return at_most_m(static_cast<double>(p - stage) +
                     question.kept_for_weights * static_cast<double>(stage));
  }
  if (name == "zb-2p") return at_most_m(static_cast<double>(2 * p - 1));
  return std::nullopt;
}

}  // namespace tutti::spec
