// Config sections become the plain structs that spec asks for.
#include "cli/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/units.h"
#include "spec/own_runtime.h"

namespace tutti::cli {
namespace {

// AdamW has two moments; SGD holds its momentum also where it is 0.
int optimizer_states(const train::OptimOptions& optim) { return optim.kind == "adamw" ? 2 : 1; }

// `config` outlives the result: the schedule's name is a view of it.
spec::MemoryLayout split_of(const config::RunConfig& config, const spec::ModelOptions& model,
                            const mesh::Layout& layout) {
  const parallel::ParallelOptions& p = config.parallel;
  spec::MemoryLayout split{.tp = layout.size(mesh::Axis::Tp),
                           .pp = layout.size(mesh::Axis::Pp),
                           .dp = layout.size(mesh::Axis::Dp),
                           .cp = layout.size(mesh::Axis::Cp),
                           .ep = layout.size(mesh::Axis::Ep),
                           .zero = layout.zero,
                           .zero_shard = p.zero_shard,
                           .sequence_parallel = p.sequence,
                           .schedule = p.schedule,
                           .chunks = p.chunks,
                           .micro = config.batch.micro,
                           .sequence = config.data.sequence,
                           .recompute = spec::recompute_from_name(p.recompute)};
  if (p.schedule == "zb-v") split.chunks = 2;
  if (model.kind == "resnet50") split.sequence = 1;
  split.microbatches = std::max<std::int64_t>(1, config.batch.global / (split.micro * split.dp));
  return split;
}

// Threads beyond the heads of a micro-batch have nothing to do.
spec::AttentionWork attention_of(const config::RunConfig& config, const spec::ModelOptions& model,
                                 const spec::MemoryLayout& split, int threads) {
  if (model.kind != "gpt2") return {};
  const std::int64_t heads = split.micro * std::max<std::int64_t>(1, model.kv_heads / split.tp);
  return {.tokens = split.sequence.value(),
          .head_size = model.hidden / model.heads,
          .threads =
              std::min<std::int64_t>(config.run.threads > 0 ? config.run.threads : threads, heads)};
}

struct Limit {
  std::function<spec::Count(const spec::MemoryLayout&)> bytes;  // empty: none is known
  std::string name;
};

Limit limit_of(const config::RunConfig& config, int ranks, const MemoryLimits& limits) {
  if (limits.per_rank) {
    const auto bytes = static_cast<std::int64_t>(*limits.per_rank);
    return {[bytes](const spec::MemoryLayout&) { return spec::Count(bytes); }, "--limit"};
  }
  if (const auto given = core::parse_bytes(config.run.memory_limit)) {
    const auto bytes = static_cast<std::int64_t>(*given);
    return {[bytes](const spec::MemoryLayout&) { return spec::Count(bytes); },
            "[run] memory_limit"};
  }
  if (limits.host_available == 0) return {};
  // Where a cure needs more ranks than the layout has, they come to this host too.
  const auto available = static_cast<std::int64_t>(limits.host_available);
  const std::int64_t here = std::max(limits.local_ranks, 1);
  return {[=](const spec::MemoryLayout& split) {
            const std::int64_t all = split.tp * split.pp * split.dp * split.cp;
            return spec::Count(available / (here * std::max<std::int64_t>(1, all / ranks)));
          },
          here == 1 ? "this host's available memory"
                    : fmt::format("this host's available memory, shared by {} ranks,", here)};
}

// Gathering once a step instead of twice a micro-batch costs nothing but room.
bool keeps_gathered(const spec::Graph& graph, spec::MemoryLayout split,
                    const std::function<spec::Runtime(const spec::MemoryLayout&)>& runtime,
                    const Limit& limit) {
  if (split.zero < 3 || split.microbatches == 1 || !limit.bytes) return false;
  if (runtime(split).sharing_ranks > 1) return false;
  split.keep_gathered = true;
  return spec::peak_memory(graph, split, runtime(split)).total() <= limit.bytes(split);
}

}  // namespace

spec::MemoryReport plan_memory(const config::RunConfig& config, const spec::ModelOptions& model,
                               const mesh::Layout& layout, const MemoryLimits& limits,
                               Proposals proposals, std::vector<core::Problem>& problems) {
  spec::MemoryLayout split = split_of(config, model, layout);
  const spec::DecoderSizes sizes =
      model.kind == "resnet50" ? spec::DecoderSizes{.layers = 16} : spec::decoder_sizes(model);
  std::vector<core::Problem> found = spec::check_layout(sizes, split);
  problems.insert(problems.end(), found.begin(), found.end());
  spec::MemoryReport report;
  if (!found.empty()) return report;

  const spec::Graph graph = spec::graph(model);
  const bool unfused = model.attention_dropout > 0;
  const auto runtime = [&](const spec::MemoryLayout& asked) {
    return spec::own_runtime(
        {.precision = config.run.precision,
         .optimizer_states = optimizer_states(config.optim),
         .attention_dropout = unfused,
         // At ZeRO 0 every rank updates a copy of its own; a device that is one
         // rank's shares nothing.
         .share_pages = config.parallel.share_pages && asked.zero > 0 && !limits.per_rank,
         // A device's checkpoint is copied to its host.
         .checkpoints = config.run.checkpoint_every > 0 && !limits.per_rank,
         .ranks_on_host = std::min<std::int64_t>(asked.shards(), limits.local_ranks),
         .processes_on_host = std::max(limits.local_ranks, 1),
         .attention = attention_of(config, model, asked, limits.threads)});
  };
  const Limit limit = limit_of(config, layout.ranks(), limits);
  report.keep_gathered = split.keep_gathered = keeps_gathered(graph, split, runtime, limit);
  const std::int64_t per_stage = split.tp * split.dp * split.cp;
  for (std::int64_t stage = 0; stage < split.pp; ++stage) {  // pp is the slowest axis
    report.ranks.push_back({.first = stage * per_stage,
                            .last = (stage + 1) * per_stage - 1,
                            .terms = spec::stage_memory(graph, split, runtime(split), stage)});
  }
  if (!limit.bytes) return report;
  report.limit = limit.bytes(split);
  report.limit_name = limit.name;
  report.fits = spec::fullest(report).terms.total() <= *report.limit;
  report.may_grow = proposals == Proposals::Everything;
  if (report.fits) return report;
  const spec::FitQuestion question{.graph = graph,
                                   .sizes = sizes,
                                   .layout = split,
                                   .runtime = runtime,
                                   .limit = limit.bytes,
                                   .pp = report.may_grow};
  report.cures = spec::cures(question);
  report.replicas = spec::sharing_replicas(question);
  return report;
}

}  // namespace tutti::cli
