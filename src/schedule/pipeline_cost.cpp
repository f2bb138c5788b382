// Closed forms: one function per order, each returns nothing outside of its range.
#include "schedule/pipeline_cost.h"

#include <algorithm>

namespace tutti::schedule {
namespace {

/// The letters of the formulas.
struct Letters {
  double p, m, v, F, B, W, T, c;
  bool whole_turns;  // p divides m
};

Letters letters(const CostQuestion& question) {
  const auto [F, B, W] = question.stage;
  const PipelineShape& shape = question.shape;
  return {double(shape.stages),
          double(shape.microbatches),
          double(shape.chunks),
          F,
          B,
          W,
          F + B + W,
          question.transfer,
          shape.microbatches % shape.stages == 0};
}

using Form = std::optional<PipelineCost>;

Form gpipe_cost(const Letters& l) {
  return PipelineCost{(l.p - 1) * (l.T + 2 * l.c), l.m, "(p-1)(T + 2c)", "always"};
}

Form one_f_one_b_cost(const Letters& l) {
  const double peak = std::min(l.m, l.p);
  if (l.c == 0) return PipelineCost{(l.p - 1) * l.T, peak, "(p-1)T", "c = 0"};
  if (!l.whole_turns || l.m < 2 * l.p) return {};
  if (l.p == 1) return PipelineCost{0, peak, "0", "p = 1"};
  const double transfers = 2 * l.c * (l.m * (l.p - 1) / l.p + l.p - 2);
  return PipelineCost{(l.p - 1) * l.T + transfers, peak, "(p-1)T + 2c(m(p-1)/p + p - 2)",
                      "p divides m, m >= 2p"};
}

Form interleaved_cost(const Letters& l) {
  if (l.v == 1) return one_f_one_b_cost(l);
  if (!l.whole_turns || l.p == 1) return {};
  const double peak = std::min(l.m * l.v, l.p * l.v + l.p - 1) / l.v;
  if (l.c == 0) return PipelineCost{(l.p - 1) * l.T / l.v, peak, "(p-1)T/v", "p divides m, c = 0"};
  if (l.m < 2 * l.p || l.c > std::min(l.F, l.B + l.W) / l.v) return {};
  return PipelineCost{(l.p - 1) * l.T / l.v + 2 * l.c * (l.p * l.v - 1), peak,
                      "(p-1)T/v + 2c(pv - 1)", "p divides m, m >= 2p, c <= min(F, B + W)/v"};
}

Form zb_h1_cost(const Letters& l) {
  const double peak = std::min(l.m, l.p);
  if (l.W > std::min(l.F, l.B)) return {};
  if (l.m >= 2 * l.p && l.c <= l.W / 2) {
    return PipelineCost{(l.p - 1) * (l.F + l.B - l.W + 4 * l.c), peak, "(p-1)(F + B - W + 4c)",
                        "m >= 2p, W <= F, B, c <= W/2"};
  }
  if (l.c > 0) return {};
  if (l.m >= l.p) {
    return PipelineCost{(l.p - 1) * (l.F + l.B - l.W), peak, "(p-1)(F + B - W)",
                        "m >= p, W <= F, B, c = 0"};
  }
  return PipelineCost{(l.m + l.p - 1) * (l.F + l.B) + l.W - l.m * l.T, peak,
                      "(m+p-1)(F + B) + W - mT", "m < p, W <= F, B, c = 0"};
}

Form zb_h2_cost(const Letters& l) {
  if (l.m < 2 * l.p || l.W > std::min(l.F, l.B) || l.c > (l.F + l.B) / 2) return {};
  return PipelineCost{(l.p - 1) * (l.F + l.B - 2 * l.W + 2 * l.c), 2 * l.p - 1,
                      "(p-1)(F + B - 2W + 2c)", "m >= 2p, W <= F, B, c <= (F + B)/2"};
}

Form zb_v_cost(const Letters& l) {
  if (l.m < 2 * l.p || l.F != l.B || l.B != l.W || l.c > 0) return {};
  return PipelineCost{0, l.p, "0", "F = B = W, m >= 2p, c = 0"};
}

}  // namespace

std::optional<PipelineCost> pipeline_cost(std::string_view name, const CostQuestion& question) {
  const Letters l = letters(question);
  if (name == "gpipe") return gpipe_cost(l);
  if (name == "1f1b") return one_f_one_b_cost(l);
  if (name == "interleaved") return interleaved_cost(l);
  if (name == "zb-h1") return zb_h1_cost(l);
  if (name == "zb-h2") return zb_h2_cost(l);
  if (name == "zb-v") return zb_v_cost(l);
  return {};
}

}  // namespace tutti::schedule
