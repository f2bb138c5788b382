// Simulates every order at three numbers of micro-batches.
#include "schedule/pipeline_compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/pipeline.h"
#include "schedule/pipeline_simulate.h"

namespace tutti::schedule {
namespace {

constexpr double kRule = 0.10;
/// stages * microbatches of the largest setting: all orders in a second or two.
constexpr double kMostCompared = 1 << 17;

struct Priced {
  PipelineSchedule schedule;
  Simulation result;
};

Priced price(const CompareQuestion& question, const ComparedOrder& order, int microbatches) {
  PipelineRequest request{order.name, question.stages, microbatches, order.chunks, {}, {}};
  const PipelineShape shape = pipeline_shape(request);
  request.times = stage_times(shape, question.times, question.transfer);
  PipelineSchedule schedule = make_pipeline(request);
  Simulation result = simulate(schedule, *request.times);
  return {std::move(schedule), std::move(result)};
}

std::string label(const ComparedOrder& order) {
  return order.chunks == 1 ? order.name : fmt::format("{} x{}", order.name, order.chunks);
}

}  // namespace

bool ComparedOrder::rule_holds() const { return bubble_at_2p < kRule && bubble_at_4p < kRule; }

bool can_compare(const CompareQuestion& question) {
  const double most = std::max(question.microbatches, 4 * question.stages);
  return question.stages * most <= kMostCompared;
}

std::vector<ComparedOrder> compare_orders(const CompareQuestion& question) {
  std::vector<ComparedOrder> orders;
  for (const std::string& name : pipeline_names()) {
    if (name == "interleaved") {
      orders.push_back({name, 2});
      orders.push_back({name, 4});
    } else {
      orders.push_back({name, name == "zb-v" ? 2 : 1});
    }
  }
  for (ComparedOrder& order : orders) {
    const Priced asked = price(question, order, question.microbatches);
    order.peak = peak_activations(asked.schedule);
    order.bubble = asked.result.bubble;
    order.bubble_global = asked.result.bubble_global;
    order.bubble_at_2p = price(question, order, 2 * question.stages).result.bubble;
    order.bubble_at_4p = price(question, order, 4 * question.stages).result.bubble;
  }
  return orders;
}

std::string comparison_text(const CompareQuestion& question,
                            const std::vector<ComparedOrder>& orders) {
  const int few = 2 * question.stages;
  const int many = 4 * question.stages;
  std::string text =
      fmt::format("{:<15} {:>6} {:>9} {:>9} {:>9} {:>9}  under 10 % from m = 2p to 4p\n", "order",
                  "peak", fmt::format("m = {}", question.microbatches), "makespan",
                  fmt::format("m = {}", few), fmt::format("m = {}", many));
  std::vector<std::string> holds;
  std::string plain;
  for (const ComparedOrder& order : orders) {
    const char* verdict = order.rule_holds()           ? "yes"
                          : order.bubble_at_4p < kRule ? "at 4p only"
                                                       : "no";
    text += fmt::format("{:<15} {:>6.4g} {:>7.1f} % {:>7.1f} % {:>7.1f} % {:>7.1f} %  {}\n",
                        label(order), order.peak, 100 * order.bubble, 100 * order.bubble_global,
                        100 * order.bubble_at_2p, 100 * order.bubble_at_4p, verdict);
    if (order.rule_holds()) holds.push_back(label(order));
    if (order.name == "1f1b") {
      plain = fmt::format("{} for plain 1f1b ({:.0f} % at m = {}, {:.0f} % at m = {})",
                          order.rule_holds() ? "true" : "false", 100 * order.bubble_at_2p, few,
                          100 * order.bubble_at_4p, many);
    }
  }
  return text + fmt::format(
                    "\"2 to 4 micro-batches per stage keep the bubble under 10 %\" is {} and true "
                    "for {}.\n",
                    plain,
                    holds.empty() ? "none of these" : fmt::format("{}", fmt::join(holds, ", ")));
}

}  // namespace tutti::schedule
