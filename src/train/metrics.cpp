// Figures of steps and runs.
#include "train/metrics.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/file.h"

namespace tutti::train {
namespace {

std::optional<double> median_after_first(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  std::vector<double> later(values.begin() + 1, values.end());
  const auto middle = later.begin() + static_cast<std::ptrdiff_t>(later.size() / 2);
  std::nth_element(later.begin(), middle, later.end());
  if (later.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(later.begin(), middle)) / 2;
}

template <class T>
core::Json or_null(const std::optional<T>& value) {
  return value ? core::Json(*value) : core::Json(nullptr);
}

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream file("/proc/self/smaps_rollup");
  std::string line;
  while (std::getline(file, line)) {
    const auto value = [&](std::string_view key, std::int64_t& into) {
      if (line.starts_with(key)) into = std::stoll(line.substr(key.size())) * 1024;
    };
    value("Pss:", memory.pss_bytes);
    value("Rss:", memory.rss_bytes);
    value("Pss_Shmem:", memory.shared_bytes);
  }
  return memory;
}

core::Json to_json(const StepMetrics& metrics) {
  core::Json json;
  json["step"] = metrics.step;
  json["loss"] = metrics.loss;
  json["valid_loss"] = or_null(metrics.valid_loss);
  json["grad_norm"] = metrics.grad_norm;
  json["lr"] = metrics.lr;
  json["tokens"] = metrics.tokens;
  json["step_s"] = metrics.step_s;
  json["tokens_per_s"] = static_cast<double>(metrics.tokens) / metrics.step_s;
  json["mfu"] = or_null(metrics.mfu);
  json["hfu"] = or_null(metrics.hfu);
  json["exposed_comm_s"] = metrics.exposed_comm_s;
  json["bubble"] = nullptr;     // one stage has none to measure
  json["imbalance"] = nullptr;  // every rank has equal lengths
  json["pss_bytes"] = metrics.memory ? core::Json(metrics.memory->pss_bytes) : core::Json(nullptr);
  json["rss_bytes"] = metrics.memory ? core::Json(metrics.memory->rss_bytes) : core::Json(nullptr);
  return json;
}

void drop_steps_after(const std::filesystem::path& metrics_file, std::int64_t step) {
  if (!std::filesystem::exists(metrics_file)) return;
  std::istringstream lines(core::read_file(metrics_file));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const core::Json json = core::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool whole = json.is_object() && json.contains("step");  // the last line may be cut short
    if (whole && json["step"].get<std::int64_t>() <= step) kept += line + "\n";
  }
  core::write_file_atomically(metrics_file, kept);
}

void RunFigures::add(const StepMetrics& metrics) {
  step_s_.push_back(metrics.step_s);
  tokens_per_s_.push_back(static_cast<double>(metrics.tokens) / metrics.step_s);
  if (metrics.mfu) mfu_.push_back(*metrics.mfu);
  if (step_s_.size() > 1) {
    exposed_s_ += metrics.exposed_comm_s;
    total_s_ += metrics.step_s;
  }
  tokens_ += metrics.tokens;
  if (!first_loss_) first_loss_ = metrics.loss;
  final_loss_ = metrics.loss;
  if (metrics.memory) add_memory(*metrics.memory);
}

void RunFigures::add_memory(const ProcessMemory& memory) {
  peak_.pss_bytes = std::max(peak_.pss_bytes, memory.pss_bytes);
  peak_.rss_bytes = std::max(peak_.rss_bytes, memory.rss_bytes);
  peak_.shared_bytes = std::max(peak_.shared_bytes, memory.shared_bytes);
}

std::optional<double> RunFigures::step_s() const { return median_after_first(step_s_); }
std::optional<double> RunFigures::tokens_per_s() const { return median_after_first(tokens_per_s_); }
std::optional<double> RunFigures::mfu() const { return median_after_first(mfu_); }
std::optional<double> RunFigures::exposed_comm_share() const {
  return total_s_ > 0 ? std::optional(exposed_s_ / total_s_) : std::nullopt;
}

}  // namespace tutti::train
