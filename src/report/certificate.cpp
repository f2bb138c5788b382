// Norms over dumps. One tensor is in memory at a time, in the reference, one fp32 rank and the
// layout.
#include "report/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "checkpoint/reader.h"
#include "core/error.h"
#include "core/file.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;
using checkpoint::Reader;
using checkpoint::TensorEntry;
using core::Json;
using core::RunError;

// What one rank's error becomes a band by: room for another order of the same additions. In bf16
// for more roundings too: each part of a split product is rounded before they are added up.
struct Band {
  double factor, floor;
  [[nodiscard]] double of(double error) const { return factor * error + floor; }
};
constexpr Band kBand{4, 1e-6};
constexpr Band kHalfBand{8, 0x1p-9};
constexpr double kNegligibleGrad =
    1e-6;  // of the model's rms: below it a gradient is rounding noise
constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool is_grad(const std::string& name) { return name.starts_with(kGradPrefix); }

/// One run: its losses and, by step, its tensors.
struct Dump {
  std::vector<double> losses;
  std::map<std::int64_t, Reader> steps;
};

Dump open_dump(const fs::path& folder) {
  Dump dump;
  const fs::path path = folder / kLossesFile;
  const Json losses = Json::parse(core::read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!losses.is_array() || losses.empty()) {
    throw RunError(fmt::format("{} is not a list of losses", path.string()));
  }
  for (const Json& loss :
       losses) {  // JSON has no NaN: a loss that is not finite stands there as null
    if (!loss.is_number() && !loss.is_null()) {
      throw RunError(fmt::format("{} holds {}, which is no loss", path.string(), loss.dump()));
    }
    dump.losses.push_back(loss.is_null() ? std::nan("") : loss.get<double>());
  }
  for (const checkpoint::Complete& each : checkpoint::complete_checkpoints(folder)) {
    dump.steps.emplace(each.step, Reader(each.folder));
  }
  if (dump.steps.empty()) throw RunError(fmt::format("{} holds no dumped step", folder.string()));
  return dump;
}

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return sum;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// Sizes of the reference's gradients at one step.
struct GradSizes {
  double rms_all = 0.0;
  std::map<std::string, double> rms;  // by parameter
};

GradSizes grad_sizes(Reader& reference) {
  GradSizes sizes;
  double sum = 0.0;
  double elements = 0.0;
  for (const TensorEntry& tensor : reference.index().tensors) {
    if (!is_grad(tensor.name)) continue;
    const std::vector<double> values = reference.read_doubles(tensor.name);
    const double squares = sum_of_squares(values);
    const auto count = static_cast<double>(std::max<std::size_t>(values.size(), 1));
    sizes.rms[tensor.name.substr(std::string_view(kGradPrefix).size())] =
        std::sqrt(squares / count);
    sum += squares;
    elements += static_cast<double>(values.size());
  }
  if (elements > 0) sizes.rms_all = std::sqrt(sum / elements);
  return sizes;
}

/// err(T); infinite if `run` has no such tensor or one of another shape.
double error_of(Reader& run, const TensorEntry& tensor, const std::vector<double>& truth,
                double rms_grads) {
  const TensorEntry* found = run.index().find(tensor.name);
  if (found == nullptr || found->shape != tensor.shape) return kInfinite;
  const double apart = distance(run.read_doubles(tensor.name), truth);
  const double size =
      std::max(std::sqrt(sum_of_squares(truth)),
               kNegligibleGrad * rms_grads * std::sqrt(static_cast<double>(truth.size())));
  return apart == 0.0 ? 0.0 : apart / size;
}

/// Compares dumps against one reference.
class Judge {
 public:
  explicit Judge(const CertificateInput& input)
      : reference_(open_dump(input.reference64)),
        single_(open_dump(input.single)),
        band_(input.half ? kHalfBand : kBand),
        parameters_(!(input.half && input.adamw)) {
    for (auto& [step, reader] : reference_.steps) {
      if (!single_.steps.contains(step)) {
        throw RunError(fmt::format("{} has no step {}", input.single.string(), step));
      }
      grads_[step] = grad_sizes(reader);
      if (input.adamw) skip_zero_gradients(grads_[step]);
    }
    if (single_.losses.size() != reference_.losses.size()) {
      throw RunError(fmt::format("{} has {} losses, {} has {}", input.single.string(),
                                 single_.losses.size(), input.reference64.string(),
                                 reference_.losses.size()));
    }
  }

  [[nodiscard]] const std::vector<std::string>& skipped() const { return skipped_; }
  [[nodiscard]] bool compares_parameters() const { return parameters_; }

  LayoutResult judge(const CertificateInput::Run& run) {
    Dump dump = open_dump(run.dump);
    LayoutResult result{.layout = run.layout,
                        .bitwise_repeat = equal_bits(dump, open_dump(run.repeat))};
    for (auto& [step, reference] : reference_.steps) {
      for (const bool grads : {true, false}) {
        if (!grads && !parameters_) continue;
        for (const TensorEntry& tensor : reference.index().tensors) {
          if (is_grad(tensor.name) == grads) compare(result, dump, step, tensor);
        }
      }
    }
    compare_losses(result, dump.losses);
    return result;
  }

 private:
  /// A parameter is skipped if its gradient is negligible at every dumped step.
  void skip_zero_gradients(const GradSizes& sizes) {
    const bool first = grads_.size() == 1;
    const auto negligible = [&](const std::string& name) {
      return sizes.rms.at(name) < kNegligibleGrad * sizes.rms_all;
    };
    if (first) {
      for (const TensorEntry& tensor : reference_.steps.begin()->second.index().tensors) {
        if (sizes.rms.contains(tensor.name) && negligible(tensor.name))
          skipped_.push_back(tensor.name);
      }
    } else {
      std::erase_if(skipped_, [&](const std::string& name) {
        return !sizes.rms.contains(name) || !negligible(name);
      });
    }
  }

  void compare(LayoutResult& result, Dump& dump, std::int64_t step, const TensorEntry& tensor) {
    if (std::count(skipped_.begin(), skipped_.end(), tensor.name) != 0) return;
    const double rms = grads_.at(step).rms_all;
    const std::vector<double> truth = reference_.steps.at(step).read_doubles(tensor.name);
    const double single = error_of(single_.steps.at(step), tensor, truth, rms);
    const auto reader = dump.steps.find(step);
    const double error =
        reader == dump.steps.end() ? kInfinite : error_of(reader->second, tensor, truth, rms);
    note(result, is_grad(tensor.name) ? result.grad_error : result.param_error,
         {tensor.name, step, error, band_.of(single)});
  }

  void compare_losses(LayoutResult& result, const std::vector<double>& losses) const {
    for (std::size_t i = 0; i < reference_.losses.size(); ++i) {
      const double truth = reference_.losses[i];
      const auto error = [&](double loss) { return std::abs(loss - truth) / std::abs(truth); };
      note(result, result.loss_error,
           {"loss", static_cast<std::int64_t>(i + 1),
            i < losses.size() ? error(losses[i]) : kInfinite, band_.of(error(single_.losses[i]))});
    }
  }

  static void note(LayoutResult& result, double& largest, const Difference& found) {
    if (!std::isnan(largest) && !(found.error <= largest)) largest = found.error;  // a NaN stays
    if (std::isfinite(found.band)) result.band = std::max(result.band, found.band);
    const bool beyond = !std::isfinite(found.band) || !(found.error <= found.band);
    if (!beyond) return;
    if (!result.first_difference) result.first_difference = found;
    const Difference& first = *result.first_difference;
    const bool alike = found.step == first.step && is_grad(found.tensor) == is_grad(first.tensor);
    if (!result.largest_difference || (alike && found.error > result.largest_difference->error))
      result.largest_difference = found;
  }

  /// Hashes stand in the index: equal pieces with equal hashes are equal bits.
  static bool equal_bits(const Dump& a, const Dump& b) {
    const auto same_step = [](const auto& one, const auto& other) {
      return one.first == other.first && one.second.index().tensors == other.second.index().tensors;
    };
    return a.losses == b.losses &&
           std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step);
  }

  Dump reference_;
  Dump single_;
  Band band_;
  bool parameters_;
  std::map<std::int64_t, GradSizes> grads_;
  std::vector<std::string> skipped_;
};

/// JSON has no infinity: what is not finite is null, as unknown values are everywhere.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

bool Certificate::ok() const {
  return std::all_of(layouts.begin(), layouts.end(), [](const auto& each) { return each.ok(); });
}

Certificate certify(const CertificateInput& input) {
  Judge judge(input);
  Certificate certificate;
  for (const CertificateInput::Run& run : input.runs)
    certificate.layouts.push_back(judge.judge(run));
  certificate.parameters_compared = judge.compares_parameters();
  if (certificate.parameters_compared) certificate.zero_gradient_by_symmetry = judge.skipped();
  return certificate;
}

Json to_json(const Certificate& certificate) {
  Json layouts = Json::array();
  for (const LayoutResult& each : certificate.layouts) {
    layouts.push_back(
        {{"layout", each.layout},
         {"loss_error", number(each.loss_error)},
         {"grad_error", number(each.grad_error)},
         {"param_error",
          certificate.parameters_compared ? number(each.param_error) : Json(nullptr)},
         {"band", number(each.band)},
         {"bitwise_repeat", each.bitwise_repeat},
         {"first_difference",
          each.first_difference ? Json(each.first_difference->tensor) : Json(nullptr)},
         {"largest_difference",
          each.largest_difference ? Json(each.largest_difference->tensor) : Json(nullptr)}});
  }
  return {{"layouts", std::move(layouts)},
          {"zero_gradient_by_symmetry", certificate.zero_gradient_by_symmetry},
          {"ok", certificate.ok()}};
}

std::string table(const Certificate& certificate) {
  std::size_t width = std::string_view("layout").size();
  for (const LayoutResult& each : certificate.layouts) width = std::max(width, each.layout.size());
  std::string text = fmt::format("{:<{}}  {:>9}  {:>9}  {:>9}  {:>9}  {:<6}  {}\n", "layout", width,
                                 "loss", "gradients", "params", "band", "repeat", "verdict");
  for (const LayoutResult& each : certificate.layouts) {
    const std::string params =
        certificate.parameters_compared ? fmt::format("{:.2e}", each.param_error) : "-";
    text += fmt::format("{:<{}}  {:>9.2e}  {:>9.2e}  {:>9}  {:>9.2e}  {:<6}  {}\n", each.layout,
                        width, each.loss_error, each.grad_error, params, each.band,
                        each.bitwise_repeat ? "bits" : "DIFFER", each.ok() ? "equal" : "DIFFERENT");
  }
  for (const LayoutResult& each : certificate.layouts) {
    if (const auto& first = each.first_difference) {
      text += fmt::format("{}: the first difference is {} at step {}: error {:.2e}, band {:.2e}\n",
                          each.layout, first->tensor, first->step, first->error, first->band);
      const Difference& largest = *each.largest_difference;
      if (largest.tensor != first->tensor) {
        text += fmt::format("{}: the largest is {} at step {}: error {:.2e}, band {:.2e}\n",
                            each.layout, largest.tensor, largest.step, largest.error, largest.band);
      }
    }
    if (!each.bitwise_repeat) {
      text += fmt::format("{}: a second run of the same layout gave other bits\n", each.layout);
    }
  }
  if (!certificate.parameters_compared) {
    text +=
        "parameters are not compared: AdamW in bf16 makes steps of +-lr of signs that roundings "
        "decide\n";
  }
  if (!certificate.zero_gradient_by_symmetry.empty()) {
    text += fmt::format("zero gradient by symmetry, parameters not compared: {}\n",
                        fmt::join(certificate.zero_gradient_by_symmetry, ", "));
  }
  return text;
}

}  // namespace tutti::report
