// The checks of all modules, in the order in which their results build on each other.
#include "cli/run_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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
  layout.micro = config.batch.micro;
  return layout;
}

int number_of_ranks(const mesh::Layout& layout, int given, const topology::Host& host) {
  if (given > 0) return given;
  return layout.size(mesh::Axis::Dp) > 0 ? layout.ranks() : static_cast<int>(host.cores.size());
}

int optimizer_states(const train::OptimOptions& optim) {
  if (optim.kind == "adamw") return 2;
  return optim.betas[0] > 0 ? 1 : 0;
}

int element_bytes(const train::RunOptions& run) { return run.precision == "fp64" ? 8 : 4; }

std::string bytes(std::int64_t count) {
  return core::format_bytes(static_cast<std::uint64_t>(count));
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

void check_memory(const RunPlan& plan, int local_ranks, std::uint64_t available,
                  std::vector<core::Problem>& problems) {
  const auto rank = static_cast<std::uint64_t>(plan.state.total());
  const auto limit = core::parse_bytes(plan.config.run.memory_limit);
  if (limit && rank > *limit) {
    problems.push_back({fmt::format(
        "[run] memory_limit = {} is less than the {} of parameters, gradients and optimizer state "
        "of each "
        "rank ({}). Raise it, take a smaller model, or more ranks with [parallel] zero = 1.",
        core::format_bytes(*limit), core::format_bytes(rank), mesh::describe(plan.layout))});
  }
  const std::uint64_t all = rank * static_cast<std::uint64_t>(local_ranks);
  if (limit || all <= available) return;
  const std::uint64_t fit = available / std::max<std::uint64_t>(rank, 1);
  const std::string fewer =
      fit == 0 ? "Take a smaller model"
               : fmt::format("Use at most {} ranks (-n {}), or a smaller model", fit, fit);
  problems.push_back({fmt::format(
      "{} ranks x {} of parameters, gradients and optimizer state = {}, but this host has {} "
      "available. "
      "{}{}.",
      local_ranks, core::format_bytes(rank), core::format_bytes(all), core::format_bytes(available),
      fewer, plan.layout.zero == 0 && local_ranks > 1 ? ", or [parallel] zero = 1" : "")});
}

RunPlan plan_run(const config::RunConfig& config, RanksWanted wanted, const topology::Host& host,
                 std::vector<core::Problem>& problems) {
  const std::size_t before = problems.size();
  RunPlan plan{.config = config, .model = {}, .layout = layout_of(config), .state = {}};

  const spec::ModelOptions model =
      spec::resolve(config.model, tokenizer_vocab(config.data), problems);
  const bool model_stands = problems.size() == before;
  // An unknown preset leaves the sizes open; a wrong size leaves the others as they are.
  const bool sizes_known = model_stands || config.model.preset.empty();
  const std::vector<core::Problem> in_data =
      data::check(config.data, sizes_known ? model.context : config.data.sequence,
                  sizes_known ? model.vocab : 0, config.batch.global);
  problems.insert(problems.end(), in_data.begin(), in_data.end());

  const int ranks = number_of_ranks(plan.layout, wanted.given, host);
  const std::size_t before_layout = problems.size();
  plan.layout = mesh::fill_dp(plan.layout, ranks, problems);
  if (problems.size() != before_layout) return plan;
  plan.config.parallel.dp = plan.layout.size(mesh::Axis::Dp);
  check_batch(config.batch, plan.config.parallel.dp, problems);
  if (!model_stands) return plan;

  plan.model = spec::describe(model);
  plan.state = spec::state_bytes(plan.model, plan.layout, element_bytes(config.run),
                                 optimizer_states(config.optim));
  check_memory(plan, wanted.local > 0 ? wanted.local : ranks, host.memory_available_bytes,
               problems);
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
  for (const mesh::Axis axis : mesh::kAxes) {
    if (plan.layout.size(axis) < 2) continue;
    text += fmt::format("groups      {}: {} of {} ranks, the first is {}\n", mesh::name(axis),
                        ranks / plan.layout.size(axis), plan.layout.size(axis),
                        fmt::join(mesh::Mesh(plan.layout, 0).group({axis}), " "));
  }
  const int accumulate = c.batch.global / (c.batch.micro * c.parallel.dp);
  text += fmt::format(
      "each rank   parameters {}, gradients {}, optimizer {}: {} in all, activations not counted\n"
      "batch       {} sequences of {} tokens = {} micro-batches of {} on each of {} ranks\n"
      "steps       {} = {} tokens\n"
      "run folder  {}",
      bytes(plan.state.parameters), bytes(plan.state.gradients), bytes(plan.state.optimizer),
      bytes(plan.state.total()), c.batch.global, c.data.sequence, accumulate, c.batch.micro,
      c.parallel.dp, c.run.steps,
      core::format_count(static_cast<std::uint64_t>(c.run.steps) *
                         static_cast<std::uint64_t>(c.batch.global) *
                         static_cast<std::uint64_t>(c.data.sequence)),
      c.run.dir);
  return text;
}

core::Json to_json(const RunPlan& plan) {
  return {{"layout", mesh::to_json(plan.layout)},
          {"ranks", plan.layout.ranks()},
          {"params", plan.model.num_params()},
          {"state_bytes",
           {{"parameters", plan.state.parameters},
            {"gradients", plan.state.gradients},
            {"optimizer", plan.state.optimizer},
            {"total", plan.state.total()}}},
          {"steps", plan.config.run.steps},
          {"dir", plan.config.run.dir}};
}

}  // namespace tutti::cli
