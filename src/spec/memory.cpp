// The terms, one function each.
#include "spec/memory.h"

#include <algorithm>

#include "schedule/pipeline.h"
#include "spec/inflight.h"

namespace tutti::spec {
namespace {

// What a stage is made of.
struct StageContents {
  bool embedding = false;
  bool head = false;
  std::vector<std::int64_t> blocks;  // layers of each of graph.blocks
};

// Where chunk `chunk` of `stage` stands along the model: looped, or a V for zb-v.
std::int64_t position_of(const MemoryLayout& layout, std::int64_t stage, std::int64_t chunk) {
  const bool backwards = layout.schedule == "zb-v" && chunk % 2 == 1;
  return chunk * layout.pp + (backwards ? layout.pp - 1 - stage : stage);
}

StageContents contents(const Graph& graph, const MemoryLayout& layout, std::int64_t stage) {
  StageContents result;
  result.blocks.assign(graph.blocks.size(), 0);
  const std::int64_t layers = graph.layers().value();
  const std::int64_t positions = layout.pp * layout.chunks;
  for (std::int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
    const std::int64_t position = position_of(layout, stage, chunk);
    result.embedding |= position == 0;
    result.head |= position == positions - 1;
    std::int64_t begin = 0;
    if (graph.blocks.size() > 1) {
      for (std::int64_t before = 0; before < position; ++before) {
        begin += layers_of_position(layers, positions, before);
      }
    }
    const std::int64_t end = begin + layers_of_position(layers, positions, position);
    if (graph.blocks.size() == 1) {
      result.blocks[0] += end - begin;
      continue;
    }
    std::int64_t kind_begin = 0;
    for (std::size_t kind = 0; kind < graph.blocks.size(); ++kind) {
      const std::int64_t kind_end = kind_begin + graph.blocks[kind].count.value();
      result.blocks[kind] +=
          std::max<std::int64_t>(0, std::min(end, kind_end) - std::max(begin, kind_begin));
      kind_begin = kind_end;
    }
  }
  return result;
}

// Parameters of one rank: those every data-parallel rank has, and experts.
struct RankParameters {
  Count dense;
  Count experts;
};

Count dense_share(const Weights& weights, std::int64_t tp) {
  return share(weights.split, tp) + weights.whole;
}

RankParameters parameters_of(const Graph& graph, const MemoryLayout& layout,
                             const StageContents& stage) {
  RankParameters sum;
  if (stage.embedding) sum.dense += dense_share(graph.embedding.weights(), layout.tp);
  for (std::size_t kind = 0; kind < graph.blocks.size(); ++kind) {
    if (stage.blocks[kind] == 0) continue;
    const Weights weights = graph.blocks[kind].weights();
    sum.dense += stage.blocks[kind] * dense_share(weights, layout.tp);
    sum.experts += stage.blocks[kind] * share(weights.experts, layout.ep * layout.tp);
  }
  if (stage.head) sum.dense += dense_share(graph.head.weights(), layout.tp);
  // A tied head on the embedding's own rank is no second copy.
  if (stage.embedding && stage.head) sum.dense = sum.dense - share(graph.tied, layout.tp);
  return sum;
}

// ZeRO: weights are sharded at stage 3, gradients from 2 on, the optimizer from 1 on.
void add_states(MemoryTerms& terms, Count parameters, std::int64_t shards, int zero,
                const Runtime& runtime) {
  const auto held = [&](int width, bool sharded) {
    return share(parameters * width, sharded ? shards : 1);
  };
  const StateWidths& widths = runtime.widths;
  // Shared pages are one copy per host, of which each rank counts its share, at every stage.
  const Count weights = held(widths.weight, zero >= 3 && runtime.sharing_ranks <= 1);
  if (runtime.sharing_ranks > 1) {
    const Count mine = share(weights, runtime.sharing_ranks);
    terms.parameters += mine;
    terms.shared += mine;
  } else {
    terms.parameters += weights;
  }
  terms.gradients += held(widths.gradient, zero >= 2);
  if (zero < 2) terms.gradients += held(widths.gradient_copy, false);
  terms.optimizer += held(widths.optimizer, zero >= 1);
}

double inflight_of(const MemoryLayout& layout, const Runtime& runtime, std::int64_t stage) {
  const auto peak = peak_inflight({.schedule = layout.schedule,
                                   .stages = layout.pp,
                                   .microbatches = layout.microbatches,
                                   .chunks = layout.chunks,
                                   .kept_for_weights = runtime.kept_for_weights},
                                  stage);
  if (peak) return *peak;
  const schedule::PipelineSchedule order =
      schedule::make_pipeline({.name = std::string(layout.schedule),
                               .stages = static_cast<int>(layout.pp),
                               .microbatches = static_cast<int>(layout.microbatches),
                               .chunks = static_cast<int>(layout.chunks)});
  return schedule::peak_activations(order, static_cast<int>(stage));
}

// Kept tensors of all micro-batches in flight, and the one block that runs backward.
void add_activations(MemoryTerms& terms, const Graph& graph, const MemoryLayout& layout,
                     const Runtime& runtime, const StageContents& stage, double inflight) {
  const ActivationQuestion question = activation_question(layout, runtime);
  ActivationQuestion whole = question;
  whole.recompute = Recompute::None;
  Count kept = stage.embedding ? graph.embedding.activation_bytes(whole) : Count(0);
  Count work = 0;
  Count width = 0;
  for (std::size_t kind = 0; kind < graph.blocks.size(); ++kind) {
    if (stage.blocks[kind] == 0) continue;
    const Count one = graph.blocks[kind].activation_bytes(question);
    const Count all = graph.blocks[kind].activation_bytes(whole);
    kept += stage.blocks[kind] * one;
    // What is computed again comes back whole, with gradients; what was kept is counted already.
    const bool full = question.recompute == Recompute::Full;
    const double factor = all == one ? runtime.backward_work : runtime.block_work;
    const Count counted = full || all == one ? Count(0) : one;
    const Count again = rounded(factor * all.real()) - counted;
    work = std::max(work, again);
    width = std::max(width, graph.blocks[kind].input_per_token);
  }
  terms.activations = rounded(kept.real() * inflight) + work + runtime.scratch_bytes;
  if (stage.head) terms.activations += graph.head.activation_bytes(whole);
  if (layout.tp > 1 && layout.sequence_parallel) {
    // Products read their whole input: it and the gradient of the output are gathered; a recomputed
    // block keeps both of its gathered inputs.
    const int gathered = question.recompute == Recompute::Full ? 4 : 2;
    terms.buffers += gathered * (question.tokens * width * runtime.compute_bytes);
  }
}

void add_logits(MemoryTerms& terms, const Graph& graph, const MemoryLayout& layout,
                const Runtime& runtime) {
  const Count tokens = graph.tokens_per_image > 0
                           ? Count(layout.micro)
                           : share(layout.micro * layout.sequence, layout.cp);
  const Count rows = runtime.logit_rows > 0 ? std::min(tokens, runtime.logit_rows) : tokens;
  terms.logits = rounded(runtime.logit_bytes * (rows * share(graph.vocab, layout.tp)).real());
}

/// Elements of the largest layer, and of embedding and head together.
struct WholeLayers {
  Count largest;
  Count ends;
};
WholeLayers whole_layers(const Graph& graph, const MemoryLayout& layout,
                         const StageContents& stage) {
  Count largest = 0;
  for (std::size_t kind = 0; kind < graph.blocks.size(); ++kind) {
    if (stage.blocks[kind] == 0) continue;
    const Weights weights = graph.blocks[kind].weights();
    largest =
        std::max(largest, dense_share(weights, layout.tp) + share(weights.experts, layout.ep));
  }
  Count ends = 0;
  if (stage.embedding) ends += dense_share(graph.embedding.weights(), layout.tp);
  if (stage.head) ends += dense_share(graph.head.weights(), layout.tp);
  if (stage.embedding && stage.head) ends = ends - share(graph.tied, layout.tp);
  return {largest, ends};
}

// ZeRO 3 gathers a layer, prefetches the next (or keeps `all` parameters) and holds the gradient of
// one until it is reduced; embedding and head with their gradients likewise. Where pages are
// shared, or at ZeRO 2, there are only the gradients.
Count gathered(const WholeLayers& whole, Count all, const MemoryLayout& layout,
               const Runtime& runtime) {
  if (layout.zero >= 3 && runtime.sharing_ranks <= 1) {
    const Count parameters = layout.keep_gathered ? all : 2 * whole.largest + whole.ends;
    const int gradient = runtime.whole_gradients ? runtime.widths.gradient : runtime.gathered_bytes;
    return parameters * runtime.gathered_bytes + (whole.largest + whole.ends) * gradient;
  }
  if (layout.zero >= 2 && runtime.whole_gradients)
    return (whole.largest + whole.ends) * runtime.widths.gradient;
  return 0;
}

}  // namespace

double kept_by_searched_orders() { return schedule::kKeptForWeights; }

ActivationQuestion activation_question(const MemoryLayout& layout, const Runtime& runtime) {
  return {.tokens = share(layout.micro * layout.sequence, layout.cp),
          .keys = layout.sequence,
          .tp = static_cast<int>(layout.tp),
          .sequence_parallel = layout.sequence_parallel,
          .compute_bytes = runtime.compute_bytes,
          .fused_attention = runtime.fused_attention,
          .dropout = runtime.dropout,
          .recompute = layout.recompute};
}

std::int64_t layers_of_position(std::int64_t layers, std::int64_t positions,
                                std::int64_t position) {
  if (layers % positions == 0) return layers / positions;
  if ((layers + 2) % positions == 0) {
    return (layers + 2) / positions - (position == 0 ? 1 : 0) - (position == positions - 1 ? 1 : 0);
  }
  return layers / positions + (position < layers % positions ? 1 : 0);
}

MemoryTerms stage_memory(const Graph& graph, const MemoryLayout& layout, const Runtime& runtime,
                         std::int64_t stage) {
  const StageContents held = contents(graph, layout, stage);
  const RankParameters parameters = parameters_of(graph, layout, held);
  const std::int64_t replicas = layout.dp * layout.cp;
  const std::int64_t shards = layout.shards();
  MemoryTerms terms;
  add_states(terms, parameters.dense, shards, layout.zero, runtime);
  if (parameters.experts > 0) {
    add_states(terms, parameters.experts, std::max<std::int64_t>(1, replicas / layout.ep),
               layout.zero, runtime);
  }
  add_activations(terms, graph, layout, runtime, held, inflight_of(layout, runtime, stage));
  if (held.head) add_logits(terms, graph, layout, runtime);
  if (shards > 1)
    terms.buffers += gathered(whole_layers(graph, layout, held), parameters.dense, layout, runtime);
  terms.buffers += runtime.bucket_bytes + rounded(runtime.bucket_share * terms.gradients.real());
  // Every parameter is written once, by the first shard group; a rank has dense ones and experts to
  // share.
  terms.buffers += share(parameters.dense * runtime.checkpoint_bytes, shards) +
                   share(parameters.experts * runtime.checkpoint_bytes,
                         std::max<std::int64_t>(1, replicas / layout.ep));
  terms.slack = rounded(runtime.slack * (terms.activations + terms.logits).real());
  terms.base = runtime.base_bytes;
  return terms;
}

MemoryTerms peak_memory(const Graph& graph, const MemoryLayout& layout, const Runtime& runtime,
                        std::int64_t* stage) {
  MemoryTerms peak = stage_memory(graph, layout, runtime, 0);
  if (stage != nullptr) *stage = 0;
  for (std::int64_t other = 1; other < layout.pp; ++other) {
    const MemoryTerms terms = stage_memory(graph, layout, runtime, other);
    if (terms.total() <= peak.total()) continue;
    peak = terms;
    if (stage != nullptr) *stage = other;
  }
  return peak;
}

}  // namespace tutti::spec
