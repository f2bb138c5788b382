// The checks of all modules, in the order in which their results build on each other.
#include "cli/run_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/memory_plan.h"
#include "core/units.h"
#include "data/check.h"
#include "data/token_file.h"
#include "mesh/mesh.h"

namespace tutti::cli {
namespace {

/// The vocabulary of the first token file; that of bytes if the file cannot be read, which
/// data::check reports.
int tokenizer_vocab(const data::DataOptions& data) {
  constexpr int kBytes = 256;
  if (data.train.empty()) return kBytes;
  try {
    return static_cast<int>(data::TokenFile(data.train.front()).header().tokenizer.vocab_size);
  } catch (const core::Error&) {
    return kBytes;
  }
}

mesh::Layout layout_of(const config::RunConfig& config) {
  mesh::Layout layout;
  const parallel::ParallelOptions& p = config.parallel;
  layout.sizes = {{mesh::Axis::Dp, p.dp},
                  {mesh::Axis::Tp, p.tp},
                  {mesh::Axis::Pp, p.pp},
                  {mesh::Axis::Cp, p.cp},
                  {mesh::Axis::Ep, p.ep}};
  layout.zero = p.zero;
  layout.zero_shard = p.zero_shard;
  layout.micro = config.batch.micro;
  layout.share_pages = p.share_pages;
  layout.recompute = p.recompute;
  layout.sequence = p.sequence;
  return layout;
}

int number_of_ranks(const mesh::Layout& layout, int given, const topology::Host& host) {
  return given > 0 ? given : layout.ranks_or(static_cast<int>(host.cores.size()));
}

std::string terms(const spec::MemoryTerms& memory) {
  const auto bytes = [](spec::Count count) {
    return core::format_bytes(static_cast<std::uint64_t>(count.value()));
  };
  return fmt::format(
      "parameters {}, gradients {}, optimizer {}, activations {}, logits {}, the rest {}: {} in "
      "all",
      bytes(memory.parameters), bytes(memory.gradients), bytes(memory.optimizer),
      bytes(memory.activations), bytes(memory.logits),
      bytes(memory.buffers + memory.slack + memory.base), bytes(memory.total()));
}

}  // namespace

void check_batch(const train::BatchOptions& batch, int ranks,
                 std::vector<core::Problem>& problems) {
  const std::int64_t unit = static_cast<std::int64_t>(batch.micro) * ranks;
  if (batch.global % unit == 0) return;
  std::vector<std::int64_t> sizes;
  if (batch.global > unit) sizes.push_back(batch.global / unit * unit);
  sizes.push_back((batch.global / unit + 1) * unit);
  std::vector<int> fitting;  // micro-batch sizes that work at this number of ranks
  for (int micro = 1; batch.global % ranks == 0 && micro <= batch.global / ranks; ++micro) {
    if (batch.global / ranks % micro == 0) fitting.push_back(micro);
  }
  std::string cure = fmt::format("Set global to {}", fmt::join(sizes, " or "));
  if (!fitting.empty()) cure += fmt::format(", or micro to one of {}", fmt::join(fitting, ", "));
  problems.push_back({fmt::format(
      "[batch] global = {} is no multiple of micro x ranks = {} x {} = {}: every rank runs whole "
      "micro-batches. {}, or change the number of ranks.",
      batch.global, batch.micro, ranks, unit, cure)});
}

spec::ModelOptions resolve_model(const config::RunConfig& config,
                                 std::vector<core::Problem>& problems) {
  return spec::resolve(config.model, tokenizer_vocab(config.data), problems);
}

mesh::Layout plan_layout(config::RunConfig& config, RanksWanted wanted, const topology::Host& host,
                         std::vector<core::Problem>& problems) {
  mesh::Layout layout = layout_of(config);
  const std::size_t before = problems.size();
  layout = mesh::fill_dp(layout, number_of_ranks(layout, wanted.given, host), problems);
  if (problems.size() != before) return layout;
  config.parallel.dp = layout.size(mesh::Axis::Dp);
  check_batch(config.batch, config.parallel.dp, problems);
  return layout;
}

RunPlan plan_run(const config::RunConfig& config, RanksWanted wanted, const topology::Host& host,
                 std::vector<core::Problem>& problems) {
  RunPlan plan{.config = config, .model = {}, .layout = {}, .memory = {}};
  const std::size_t before = problems.size();
  const spec::ModelOptions model = resolve_model(config, problems);
  if (problems.size() == before && model.kind != "gpt2") {
    problems.push_back(
        {fmt::format("[model] preset = \"{}\" is a {}, which tutti train does not build yet; tutti "
                     "memory counts "
                     "it. Train a preset whose name begins with gpt2.",
                     model.preset, model.kind)});
  }
  const bool model_stands = problems.size() == before;
  // An unknown preset leaves the sizes open; a wrong size leaves the others as they are.
  const bool sizes_known = model_stands || config.model.preset.empty();
  const std::vector<core::Problem> in_data =
      data::check(config.data, sizes_known ? model.context : config.data.sequence,
                  sizes_known ? model.vocab : 0, config.batch.global);
  problems.insert(problems.end(), in_data.begin(), in_data.end());

  const std::size_t before_layout = problems.size();
  plan.layout = plan_layout(plan.config, wanted, host, problems);
  if (!model_stands || problems.size() != before_layout) return plan;

  const int local = wanted.local > 0 ? wanted.local : plan.layout.ranks();
  plan.memory = plan_memory(plan.config, model, plan.layout,
                            {.host_available = host.memory_available_bytes,
                             .local_ranks = local,
                             .threads = std::max(1, static_cast<int>(host.cores.size()) / local)},
                            Proposals::WhatARunObeys, problems);
  if (plan.memory.ranks.empty()) return plan;
  if (!plan.memory.fits) {  // and may be too long to list
    problems.push_back({"Memory: " + spec::verdict(plan.memory)});
    return plan;
  }
  plan.model = spec::describe(model);
  return plan;
}

std::string describe(const RunPlan& plan) {
  const config::RunConfig& c = plan.config;
  const spec::ModelOptions& m = plan.model.model;
  const int ranks = plan.layout.ranks();
  std::string text = fmt::format(
      "model       {}: {} layers, {} heads, hidden {}, vocabulary {}, context {}\n"
      "parameters  {}\n"
      "layout      {}: {} ranks\n",
      m.preset.empty() ? m.kind : m.preset, m.layers, m.heads, m.hidden, m.vocab, m.context,
      core::format_count(static_cast<std::uint64_t>(plan.model.num_params())),
      mesh::describe(plan.layout), ranks);
  for (const std::string& line : mesh::describe_groups(plan.layout))
    text += fmt::format("groups      {}\n", line);
  const int accumulate = c.batch.global / (c.batch.micro * c.parallel.dp);
  text += fmt::format(
      "each rank   {}\n"
      "batch       {} sequences of {} tokens = {} micro-batches of {} on each of {} ranks\n"
      "steps       {} = {} tokens\n"
      "run folder  {}",
      terms(spec::fullest(plan.memory).terms), c.batch.global, c.data.sequence, accumulate,
      c.batch.micro, c.parallel.dp, c.run.steps,
      core::format_count(static_cast<std::uint64_t>(c.run.steps) *
                         static_cast<std::uint64_t>(c.batch.global) *
                         static_cast<std::uint64_t>(c.data.sequence)),
      c.run.dir);
  return text;
}

core::Json to_json(const RunPlan& plan) {
  return {{"layout", mesh::to_json(plan.layout)}, {"ranks", plan.layout.ranks()},
          {"params", plan.model.num_params()},    {"memory", spec::to_json(plan.memory)["ranks"]},
          {"steps", plan.config.run.steps},       {"dir", plan.config.run.dir}};
}

}  // namespace tutti::cli
