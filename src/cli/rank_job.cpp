// From a config to a replica that can train.
#include "cli/rank_job.h"

#include <algorithm>
#include <cstdlib>

#include "cli/memory_plan.h"
#include "config/print.h"
#include "core/error.h"
#include "core/log.h"
#include "core/pages.h"
#include "core/version.h"
#include "model/build.h"
#include "tensor/products.h"
#include "tensor/runtime.h"
#include "topology/discover.h"
#include "train/matrix_peak.h"

namespace tutti::cli {
namespace {

mesh::Layout layout_of(const config::RunConfig& config, int ranks) {
  mesh::Layout layout;
  layout.sizes[mesh::Axis::Tp] = config.parallel.tp;
  layout.sizes[mesh::Axis::Dp] =
      config.parallel.dp > 0 ? config.parallel.dp : std::max(1, ranks / config.parallel.tp);
  layout.zero = config.parallel.zero;
  layout.zero_shard = config.parallel.zero_shard;
  layout.micro = config.batch.micro;
  layout.share_pages = config.parallel.share_pages;
  layout.recompute = config.parallel.recompute;
  layout.sequence = config.parallel.sequence;
  if (layout.ranks() != ranks) {
    throw core::ConfigError(fmt::format(
        "{} ranks were started, but [parallel] dp x tp = {} x {} needs {}. Start {} ranks, or "
        "change dp or tp.",
        ranks, layout.size(mesh::Axis::Dp), config.parallel.tp, layout.ranks(), layout.ranks()));
  }
  return layout;
}

parallel::Fault planted_fault() {
  const char* name = std::getenv("TUTTI_FAULT");
  const auto fault = parallel::fault_from_name(name == nullptr ? "" : name);
  if (fault) return *fault;
  throw core::ConfigError(
      fmt::format("TUTTI_FAULT = {} is no fault that can be planted. Use one of {} or unset it.",
                  name, fmt::join(parallel::fault_names(), ", ")));
}

int threads_of(const config::RunConfig& config) {
  if (config.run.threads > 0) return config.run.threads;
  const char* given = std::getenv("OMP_NUM_THREADS");  // our launcher sets it: cores / local ranks
  return given == nullptr ? at::get_num_threads() : std::max(1, std::atoi(given));
}

// Parameters and gradients that stay from step to step, in buckets padded to 64 bytes a parameter,
// and some room for small tensors. What comes and goes within a step makes the arena grow. Where
// parameters are shared, the first replica of a shard group holds them.
std::size_t arena_bytes(const spec::ModelSpec& spec, const parallel::ReplicaOptions& options,
                        const mesh::Mesh& mesh) {
  constexpr std::size_t kRoom = 4 << 20;
  const at::ScalarType wide = tensor::wide_type(options.type);
  std::size_t elements = 0;
  for (const spec::Param& param : spec::local_params(spec.params, mesh.coordinate(mesh::Axis::Tp),
                                                     mesh.size(mesh::Axis::Tp))) {
    elements += static_cast<std::size_t>(param.elements());
  }
  const auto padded = [&](at::ScalarType type) {
    return elements * c10::elementSize(type) + spec.params.size() * 64;
  };
  const int shards = mesh.layout().shards();
  const auto part = [&](at::ScalarType type) {
    return padded(type) / static_cast<std::size_t>(shards);
  };
  std::size_t bytes = kRoom + (options.zero >= 2 ? part(wide) : padded(wide));       // gradients
  if (wide != options.type) bytes += options.zero >= 1 ? part(wide) : padded(wide);  // masters
  if (parallel::wants_shared_pages(options, shards))
    return bytes + (mesh.shard_group().front() == mesh.world_rank() ? padded(options.type) : 0);
  return bytes + (options.zero == 3 ? part(options.type) : padded(options.type));
}

// What an earlier plan of the same layout decides; nothing where there is none. The same on every
// rank, as plan.json is rewritten only after all ranks have met again.
train::Plan decided_before(const mesh::Layout& layout, const std::filesystem::path& old_plan) {
  train::Plan plan;
  if (!old_plan.empty() && std::filesystem::exists(old_plan)) plan = train::read_plan(old_plan);
  if (plan.layout != layout) plan = {.layout = layout, .precision = plan.precision};
  return plan;
}

// What the config asks for; auto: what an earlier plan says, else what the slowest rank measures.
void decide_precision(train::Plan& plan, const std::string& asked, backend::Group& world) {
  if (asked != "auto") {
    if (!plan.precision || plan.precision->type != asked) plan.precision = {.type = asked};
    return;
  }
  if (plan.precision) return;
  const auto flops = [](at::ScalarType type) { return train::MatrixPeak({.type = type}).flops(); };
  const at::Tensor slowest =
      at::tensor({flops(at::kFloat), flops(at::kBFloat16)}, at::TensorOptions(at::kDouble));
  world.all_reduce(slowest, backend::ReduceOp::Min, "speed of products").wait();
  plan.precision = train::choose_precision(slowest[0].item<double>(), slowest[1].item<double>());
}

// Whether there is room on every host to gather parameters once a step.
bool keeps_gathered(RankJob& job, std::uint64_t available_bytes) {
  std::vector<core::Problem> problems;
  const spec::MemoryReport memory = plan_memory(job.config, job.spec.model, job.layout,
                                                {.host_available = available_bytes,
                                                 .local_ranks = job.join.local_ranks,
                                                 .threads = at::get_num_threads()},
                                                Proposals::WhatARunObeys, problems);
  const at::Tensor everywhere =
      at::full({1}, problems.empty() && memory.keep_gathered ? 1 : 0, at::kLong);
  job.groups.world.all_reduce(everywhere, backend::ReduceOp::Min, "room for parameters").wait();
  return everywhere.item<std::int64_t>() == 1;
}

// The rest of the plan; costs and table are rank 0's on every rank.
void decide(train::Plan& plan, RankJob& job, std::uint64_t available_bytes) {
  // Room comes and goes: an earlier yes is asked again, an earlier no (or an edited one) stays.
  const bool several = job.shape().num_micro_batches() > 1;
  if (job.layout.zero == 3 && several && plan.keep_gathered.value_or(true))
    plan.keep_gathered = keeps_gathered(job, available_bytes);
  if (!several) plan.keep_gathered.reset();
  if (!plan.bucket_bytes) {
    const backend::Cost cost = job.groups.shards.cost(backend::Collective::ReduceScatter);
    plan.bucket_bytes = parallel::choose_bucket_bytes(cost.latency_s, cost.bytes_per_s);
  }
  plan.collectives = job.world->comm.table();
}

// What all ranks must have in common, a line each; where a rank writes and how many cores it uses
// is its own affair.
std::vector<std::string> common_to_all(const config::RunConfig& config) {
  config::RunConfig shared = config;
  shared.run.dir = {};
  shared.run.threads = 0;
  shared.run.bind = {};
  std::vector<std::string> lines = {fmt::format("tutti {}", core::version()),
                                    fmt::format("LibTorch {}", tensor::torch_version())};
  for (std::string& each : config::statements(config::print(shared)))
    lines.push_back(std::move(each));
  return lines;
}

comm::CommOptions comm_options(const config::RunConfig& config, int rank, const train::Plan& plan) {
  comm::CommOptions options = config.comm;
  if (plan.collectives) options.table = plan.collectives->json();
  if (const char* seed = std::getenv("TUTTI_DELAYS"))  // tests only
    options.delays = std::strtoull(seed, nullptr, 10);
  options.flight_file =
      std::filesystem::path(config.run.dir) / "log" / fmt::format("flight-{}.json", rank);
  return options;
}

}  // namespace

data::BatchShape RankJob::shape() const {
  return {.micro = config.batch.micro,
          .dp = layout.size(mesh::Axis::Dp),
          .global = config.batch.global};
}

train::StepParts RankJob::step_parts() {
  return {.spec = spec,
          .mesh = *mesh,
          .groups = groups,
          .stage = *stage,
          .replica = *replica,
          .optimizer = *optimizer,
          .shape = shape(),
          .clip = config.optim.clip,
          .fault = fault,
          .trace = &trace};
}

std::unique_ptr<data::Loader> RankJob::loader(std::uint64_t first_sample) {
  return std::make_unique<data::Loader>(
      corpus,
      data::LoaderOptions{.seed = config.run.seed,
                          .shape = shape(),
                          .rank = mesh->coordinate(mesh::Axis::Dp),
                          .first_sample = first_sample,
                          .epochs = config.data.epochs},
      &trace);
}

launch::JoinOptions join_options() {
  std::vector<core::Problem> problems;
  const auto options = launch::from_environment(launch::process_env, problems);
  core::throw_if_any(problems);
  return options.value_or(launch::JoinOptions{});
}

std::unique_ptr<RankJob> wire(const config::RunConfig& config,
                              const std::filesystem::path& old_plan) {
  auto job = std::make_unique<RankJob>();
  job->config = config;
  job->join = join_options();
  job->fault = planted_fault();
  if (config.run.huge_pages == "off") core::forbid_huge_pages();
  tensor::set_up_runtime(threads_of(config));
  job->startup.done("load");

  job->corpus = std::make_shared<data::Corpus>(config.data);
  std::vector<core::Problem> problems;
  const spec::ModelOptions model =
      spec::resolve(config.model, static_cast<int>(job->corpus->tokenizer().vocab_size), problems);
  core::throw_if_any(problems);
  job->spec = spec::describe(model);
  job->layout = layout_of(config, job->join.ranks);
  job->plan = decided_before(job->layout, old_plan);
  job->startup.done("data, model");

  const topology::Memory available = topology::memory_of_host();  // before anything is taken
  parallel::ReplicaOptions replica{.zero = job->layout.zero,
                                   // A dry run publishes nothing: each rank works on its own.
                                   .share_pages = config.parallel.share_pages && !config.comm.dry,
                                   .overlap = config.parallel.overlap,
                                   .fault = job->fault,
                                   .reads = model::reads_of_layers(job->spec),
                                   .sequence = config.parallel.sequence};
  if (config.run.precision != "auto") replica.type = tensor::scalar_type(config.run.precision);
  job->mesh.emplace(job->layout, job->join.rank);
  job->world.emplace(train::join(
      job->join, common_to_all(config), comm_options(config, job->join.rank, job->plan),
      {arena_bytes(job->spec, replica, *job->mesh), config.run.huge_pages == "require"}));
  job->world->comm.dump_on_signal();
  job->groups = backend::connect(job->world->comm, *job->mesh);
  job->startup.done("wire-up, arena");

  decide_precision(job->plan, config.run.precision, job->groups.world);
  job->config.run.precision = job->plan.precision->type;
  replica.type = tensor::scalar_type(job->config.run.precision);
  decide(job->plan, *job, available.available_bytes);
  job->startup.done("tuning");
  job->trace.set_on(true);
  replica.bucket_bytes = *job->plan.bucket_bytes;
  if (job->plan.keep_gathered.value_or(false))
    replica.window = static_cast<int>(replica.reads.size());
  job->replica.emplace(job->spec,
                       parallel::ReplicaGroups{.shards = job->groups.shards,
                                               .copies = job->groups.copies,
                                               .gathers = job->groups.gathers,
                                               .tp = job->groups.tp},
                       replica, &job->trace);
  job->stage.emplace(model::build_stage(
      job->spec, *job->replica,
      {.seed = config.run.seed, .recompute = spec::recompute_from_name(config.parallel.recompute)},
      &job->trace));
  job->optimizer.emplace(job->spec, *job->replica, config.optim);
  job->startup.done("buckets, model");
  return job;
}

}  // namespace tutti::cli
