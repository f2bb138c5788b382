// From a name to a generator, and the sentences for requests that fit none.
#include "schedule/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/suggest.h"
#include "schedule/gpipe.h"
#include "schedule/interleaved.h"
#include "schedule/one_f_one_b.h"
#include "schedule/pipeline_check.h"
#include "schedule/zero_bubble.h"

namespace tutti::schedule {
namespace {

/// Of stages * microbatches * chunks: some seconds and 1 GiB to generate, prove and simulate.
constexpr double kMostChunkSteps = 1 << 22;

bool known(const std::string& name) {
  const auto& names = pipeline_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

PipelineSchedule generate(const PipelineRequest& request) {
  const PipelineShape shape = pipeline_shape(request);
  const auto [stages, microbatches, chunks, placement] = shape;
  if (request.name == "gpipe") return gpipe(stages, microbatches);
  if (request.name == "1f1b") return one_f_one_b(stages, microbatches);
  if (request.name == "interleaved") return interleaved(stages, microbatches, chunks);
  if (request.name == "zb-h1") return zb_h1(stages, microbatches);
  if (request.name == "zb-h2") return zb_h2(stages, microbatches);
  if (request.name == "zb-v") return zb_v(stages, microbatches);
  const PipelineTimes times = request.times.value_or(even_times(shape, {}));
  return zb_auto(stages, microbatches, times,
                 {request.memory.value_or(stages), request.kept_for_weights});
}

void check_chunks(const PipelineRequest& request, std::vector<core::Problem>& problems) {
  if (request.chunks < 0) {
    problems.push_back({fmt::format("chunks = {}: a stage has at least 1 chunk", request.chunks)});
  } else if (request.name == "zb-v" && request.chunks != 0 && request.chunks != 2) {
    problems.push_back({fmt::format(
        "chunks = {} does not fit zb-v: its V has two arms. Set chunks to 2.", request.chunks)});
  } else if (request.chunks > 1 && request.name != "interleaved" && request.name != "zb-v") {
    problems.push_back({fmt::format(
        "chunks = {} does not fit {}: it runs each stage in one piece. Set chunks to 1, or "
        "take interleaved (any number of chunks) or zb-v (2).",
        request.chunks, request.name)});
  }
}

void check_kept(const PipelineRequest& request, std::vector<core::Problem>& problems) {
  if (request.kept_for_weights >= 0 && request.kept_for_weights <= 1) return;
  problems.push_back({fmt::format(
      "kept for weights = {:g}: it is the share of a micro-batch's activations that stays between "
      "input and weight gradient, from 0 to 1 (1 counts all of them, the default is {:.4f}).",
      request.kept_for_weights, kKeptForWeights)});
}

void check_memory(const PipelineRequest& request, std::vector<core::Problem>& problems) {
  const double memory = *request.memory;
  if (!std::isfinite(memory)) {
    problems.push_back({fmt::format(
        "memory = {}: a limit is a number of micro-batches; leave it out for none.", memory)});
    return;
  }
  if (request.name == "zb-auto") {
    if (memory >= 1) return;
    problems.push_back({fmt::format(
        "memory = {:g} micro-batches is too small for zb-auto: a stage that cannot hold one does "
        "nothing. The smallest that works is 1.",
        memory)});
    return;
  }
  const double peak = peak_activations(generate(request));
  if (peak <= memory + 1e-9) return;
  problems.push_back({fmt::format(
      "memory = {:g} micro-batches is too small for {}: its fullest stage holds {:g}. The smallest "
      "that works is {:g}; zb-auto searches an order for less, down to 1.",
      memory, request.name, peak, peak)});
}

}  // namespace

const std::vector<std::string>& pipeline_names() {
  static const std::vector<std::string> names = {"gpipe", "1f1b", "interleaved", "zb-h1",
                                                 "zb-h2", "zb-v", "zb-auto"};
  return names;
}

PipelineShape pipeline_shape(const PipelineRequest& request) {
  PipelineShape shape{request.stages, request.microbatches, std::max(request.chunks, 1)};
  if (request.chunks == 0 && request.name == "interleaved") shape.chunks = 2;
  if (request.name == "zb-v") {
    shape.chunks = 2;
    shape.placement = Placement::V;
  }
  return shape;
}

std::vector<core::Problem> check(const PipelineRequest& request) {
  std::vector<core::Problem> problems;
  if (!known(request.name)) {
    const std::string near = core::nearest(request.name, pipeline_names());
    problems.push_back({fmt::format("schedule {} is unknown{}. Known: {}.", request.name,
                                    near.empty() ? "" : fmt::format("; did you mean {}", near),
                                    fmt::join(pipeline_names(), ", "))});
    return problems;
  }
  const auto at_least_one = [&](const char* what, int value) {
    if (value < 1)
      problems.push_back({fmt::format("{} = {}: a pipeline has at least 1", what, value)});
  };
  at_least_one("stages", request.stages);
  at_least_one("microbatches", request.microbatches);
  check_chunks(request, problems);
  if (!problems.empty()) return problems;
  const PipelineShape shape = pipeline_shape(request);
  if (static_cast<double>(shape.stages) * shape.microbatches * shape.chunks > kMostChunkSteps) {
    problems.push_back({fmt::format(
        "{} stages x {} micro-batches x {} chunks are more actions than can be drawn up and proven "
        "in memory: their product may be {:.0f}. Fewer micro-batches show the same pattern.",
        shape.stages, shape.microbatches, shape.chunks, kMostChunkSteps)});
    return problems;
  }
  if (request.times) {
    try {
      check_times(shape, *request.times);
    } catch (const std::invalid_argument& error) {
      problems.push_back({error.what()});
    }
  }
  check_kept(request, problems);
  if (problems.empty() && request.memory) check_memory(request, problems);
  return problems;
}

PipelineSchedule make_pipeline(const PipelineRequest& request) {
  core::throw_if_any(check(request));
  return generate(request);
}

}  // namespace tutti::schedule
