// The loop of a run.
#include "train/trainer.h"

#include <numeric>
#include <utility>

#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/units.h"
#include "core/version.h"
#include "schedule/pipeline_action.h"
#include "spec/flops.h"
#include "spec/volume.h"
#include "tensor/runtime.h"
#include "train/evaluate.h"
#include "train/lr.h"

namespace tutti::train {
namespace {

constexpr int kMemoryEvery = 100;  // steps between two looks at /proc

}  // namespace

Trainer::Trainer(TrainerParts parts, Progress progress)
    : parts_(std::move(parts)), progress_(progress), folder_(parts_.run.dir) {
  const spec::Graph graph = spec::graph(parts_.step.spec.model);
  const auto flops = [&](spec::Recompute recompute) {
    return spec::hardware_flops(graph, parts_.corpus->sequence(), /*sequences=*/1,
                                spec::Attention::CausalHalf, recompute);
  };
  flops_ = flops(spec::Recompute::None);
  hardware_flops_ = flops(parts_.recompute);
}

core::Json Trainer::train() {
  Step step(parts_.step, schedule::one_stage(parts_.step.shape.num_micro_batches()));
  if (leads()) {
    drop_steps_after(folder_ / "metrics.jsonl", progress_.step);
    metrics_file_.emplace(folder_ / "metrics.jsonl");
    line_.emplace(parts_.run.steps, progress_.step);
  }
  while (progress_.step < parts_.run.steps && !stop_) {
    if (!one_step(step)) break;
  }
  settle();  // a run may have no step left to make
  if (saved_step_ != progress_.step && (stop_ || parts_.run.checkpoint_every > 0)) save();
  parts_.checkpointer.wait();
  // Rank 0 serves the store, in which the others look up that the checkpoint is complete.
  parts_.step.groups.world.barrier("everybody has saved").wait();
  if (stop_) {
    line_.reset();
    throw core::Interrupted(fmt::format(
        "Stopped after step {} as asked; the state is saved. Go on with --resume latest.",
        progress_.step));
  }
  progress_.valid_loss = validate(/*everything=*/true);
  line_.reset();
  core::Json json = summary();
  if (leads()) core::write_file_atomically(folder_ / "summary.json", json.dump(2) + "\n");
  return json;
}

core::Json Trainer::evaluate_only() {
  progress_.valid_loss = validate(/*everything=*/true);
  return summary();
}

// False when the data has ended.
bool Trainer::one_step(Step& step) {
  parts_.world.comm.set_activity("loader.next");
  const core::Stopwatch watch;
  std::optional<data::StepBatch> batch = parts_.loader.next();
  if (!batch) {
    core::log::info("the data ended after step {}: [data] epochs are used up", progress_.step);
    return false;
  }
  parts_.world.comm.set_activity("step");
  const double lr = lr_at(parts_.optim, parts_.run.steps, static_cast<int>(progress_.step));
  const StepResult result = step.run(progress_.step + 1, *batch, lr, parts_.stop.requested());
  const double step_s = watch.elapsed().count();
  ++progress_.step;
  progress_.samples = batch->first_sample + static_cast<std::uint64_t>(parts_.step.shape.global);
  stop_ = result.stop;
  tp_sent_bytes_ = result.tp_sent_bytes;
  if (first_step_end_s_ == 0) {
    parts_.startup.done("first step");
    first_step_end_s_ = parts_.startup.together().count();
    core::log::record(parts_.startup.table());
    if (leads() && parts_.step.mesh.size(mesh::Axis::Tp) > 1) say_tp_volume();
    settle();
  }
  std::optional<double> valid_loss;
  if (due(parts_.run.eval_every) && !stop_ && progress_.step < parts_.run.steps)
    valid_loss = validate(/*everything=*/false);
  if (valid_loss) progress_.valid_loss = valid_loss;
  record(result, lr, step_s, valid_loss);
  if (due(parts_.run.checkpoint_every)) save();
  keep_trace();
  return true;
}

void Trainer::say_tp_volume() {
  const double formula = spec::tp_bytes_per_step(
      parts_.step.spec.model,
      {.tp = parts_.step.mesh.size(mesh::Axis::Tp),
       .rows = static_cast<std::int64_t>(parts_.batch.micro) * parts_.corpus->sequence(),
       .microbatches = parts_.step.shape.num_micro_batches(),
       .element_bytes = static_cast<std::int64_t>(parts_.step.replica.value(0).element_size()),
       .recompute = parts_.recompute,
       .sequence = parts_.step.replica.tensor_parallel().splits_rows()});
  const auto text = [](double bytes) {
    return core::format_bytes(static_cast<std::uint64_t>(bytes));
  };
  core::log::info("tensor parallelism: each rank sends {} a step; the formula says {}",
                  text(static_cast<double>(tp_sent_bytes_)), text(formula));
}

void Trainer::settle() {
  if (!std::exchange(settled_, true) && parts_.settle) parts_.settle();
}

// Above the peak either the peak was taken on a busy host, or a count is wrong: measured once more,
// then an error.
void Trainer::add_utilisation(StepMetrics& metrics) {
  if (parts_.peak == nullptr) return;
  const double flops_per_s = hardware_flops_ * static_cast<double>(metrics.tokens) /
                             static_cast<double>(parts_.corpus->sequence()) / metrics.step_s;
  const auto peak = [&] { return parts_.peak->flops() * parts_.world.ranks(); };
  if (flops_per_s > peak()) parts_.peak->measure();
  metrics.hfu = spec::utilisation(
      flops_per_s, peak(),
      fmt::format("hfu of step {} (peak from {})", progress_.step,
                  parts_.peak->file().empty() ? "this run" : parts_.peak->file().string()));
  if (metrics.hfu) metrics.mfu = *metrics.hfu * flops_ / hardware_flops_;
}

void Trainer::record(const StepResult& result, double lr, double step_s,
                     std::optional<double> valid_loss) {
  StepMetrics metrics{.step = progress_.step,
                      .loss = result.loss,
                      .valid_loss = valid_loss,
                      .grad_norm = result.grad_norm,
                      .lr = lr,
                      .tokens = result.tokens,
                      .step_s = step_s,
                      .exposed_comm_s = result.exposed_comm_s};
  if (figures_.steps() == 1 || progress_.step % kMemoryEvery == 0)
    metrics.memory = process_memory();
  if (leads()) add_utilisation(metrics);
  figures_.add(metrics);
  if (!leads()) return;
  metrics_file_->write(to_json(metrics).dump());
  line_->step(metrics);
}

std::optional<double> Trainer::validate(bool everything) {
  if (parts_.corpus->num_valid_windows() == 0) return std::nullopt;
  parts_.world.comm.set_activity("validation");
  std::vector<std::uint64_t> windows = parts_.corpus->valid_subset();
  if (everything) {
    windows.resize(parts_.corpus->num_valid_windows());
    std::iota(windows.begin(), windows.end(), std::uint64_t{0});
  }
  const double loss = evaluate(parts_.step.stage, *parts_.corpus, windows, parts_.batch.micro,
                               parts_.step.groups.dp);
  const std::string text = fmt::format("validation loss {:.4f} nats per token ({})", loss,
                                       everything ? "everything held out" : "a tenth of it");
  if (line_) line_->note(text);
  return loss;
}

void Trainer::save() {
  parts_.world.comm.set_activity("checkpoint");
  figures_.add_memory(process_memory());
  checkpoint::Index index;
  index.tutti_version = core::version();
  index.step = progress_.step;
  index.seed = parts_.run.seed;
  index.samples = progress_.samples;
  index.valid_loss = progress_.valid_loss;
  index.model = parts_.model;
  index.layout = parts_.layout;
  parts_.checkpointer.save(Snapshot(parts_.step.spec, parts_.step.replica, parts_.step.optimizer),
                           std::move(index));
  saved_step_ = progress_.step;
}

// Events of every step are collected, so that the last one before a failure is there; those of the
// asked steps are kept.
void Trainer::keep_trace() {
  std::vector<core::TraceEvent> events = parts_.step.trace->take();
  const auto [first, last] = parts_.run.trace;
  if (progress_.step >= first && progress_.step <= last) {
    std::move(events.begin(), events.end(), std::back_inserter(traced_));
  }
  if (progress_.step == std::min<std::int64_t>(last, parts_.run.steps)) write_trace();
}

void Trainer::write_trace() {
  if (traced_.empty()) return;
  const auto key = [](int rank) { return fmt::format("trace/{}", rank); };
  core::Json own = core::Json::array();
  for (const core::TraceEvent& event : traced_) own.push_back(core::to_json(event));
  if (!leads()) {
    parts_.world.store->set(key(parts_.world.rank()), own.dump());
    return;
  }
  for (int rank = 1; rank < parts_.world.ranks(); ++rank) {
    const std::string text = parts_.world.store->get(key(rank), core::Deadline(core::Seconds(60)));
    for (const core::Json& event : core::Json::parse(text))
      traced_.push_back(core::trace_event_from_json(event));
  }
  core::write_file_atomically(folder_ / "trace.json", core::chrome_trace(traced_).dump());
  traced_.clear();
}

core::Json Trainer::summary() {
  figures_.add_memory(process_memory());
  backend::Group& world = parts_.step.groups.world;
  const ProcessMemory& own = figures_.peak_memory();
  at::Tensor peaks = at::tensor({own.pss_bytes, own.rss_bytes, own.shared_bytes}, at::kLong);
  world.all_reduce(peaks, backend::ReduceOp::Max, "peak memory").wait();
  at::Tensor hash = at::tensor(
      {static_cast<std::int64_t>(owned_param_hash(parts_.step.spec, parts_.step.replica))},
      at::kLong);
  world.all_reduce(hash, backend::ReduceOp::Sum, "parameter hash").wait();

  const auto or_null = [](const auto& value) {
    return value ? core::Json(*value) : core::Json(nullptr);
  };
  const spec::ModelOptions& model = parts_.step.spec.model;
  core::Json json;
  json["model"] = model.preset.empty()
                      ? fmt::format("{} {}x{}", model.kind, model.layers, model.hidden)
                      : model.preset;
  json["params"] = parts_.step.spec.num_params();
  json["ranks"] = parts_.world.ranks();
  for (const mesh::Axis axis : mesh::kAxes)
    json["mesh"][std::string(mesh::name(axis))] = parts_.step.mesh.size(axis);
  json["zero"] = parts_.layout.at("zero");
  json["steps"] = progress_.step;
  json["tokens"] = figures_.tokens();
  json["first_loss"] = or_null(figures_.first_loss());
  json["final_loss"] = or_null(figures_.final_loss());
  json["valid_loss"] = or_null(progress_.valid_loss);
  json["tokens_per_s"] = or_null(figures_.tokens_per_s());
  json["step_s"] = or_null(figures_.step_s());
  json["startup_s"] =
      figures_.step_s() ? core::Json(first_step_end_s_ - *figures_.step_s()) : core::Json(nullptr);
  json["mfu"] = or_null(figures_.mfu());
  json["peak_flops"] = parts_.peak == nullptr
                           ? core::Json(nullptr)
                           : core::Json(parts_.peak->flops() * parts_.world.ranks());
  json["tp_sent_bytes"] =
      parts_.step.mesh.size(mesh::Axis::Tp) > 1 ? core::Json(tp_sent_bytes_) : core::Json(nullptr);
  json["flops_convention"] = "megatron_causal";
  json["exposed_comm_share"] = or_null(figures_.exposed_comm_share());
  json["peak_pss_bytes"] = peaks.data_ptr<std::int64_t>()[0];
  json["peak_rss_bytes"] = peaks.data_ptr<std::int64_t>()[1];
  json["shared_bytes"] = peaks.data_ptr<std::int64_t>()[2];
  json["param_hash"] = core::to_hex(static_cast<std::uint64_t>(hash.data_ptr<std::int64_t>()[0]));
  json["tutti_version"] = core::version();
  json["torch_version"] = tensor::torch_version();
  return json;
}

void write_failure_trace(const std::filesystem::path& run_folder, int rank, core::Trace& trace) {
  const std::vector<core::TraceEvent> events = trace.take();
  if (events.empty()) return;
  const auto path = run_folder / "log" / fmt::format("trace-rank-{}.json", rank);
  core::write_file_atomically(path, core::chrome_trace(events).dump());
}

}  // namespace tutti::train
