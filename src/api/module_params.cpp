#include "api/module_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <map>

#include "core/error.h"

namespace tutti {
namespace {

// "3.fc.weight" -> 3
int child_of(const std::string& name) {
  int child = 0;
  std::from_chars(name.data(), name.data() + name.size(), child);
  return child;
}

std::string type_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

void check(const std::string& name, const at::Tensor& tensor, at::ScalarType type) {
  const auto fail = [&](const std::string& text) {
    throw core::ConfigError(fmt::format("parameter {} {}", name, text));
  };
  if (!tensor.device().is_cpu())
    fail(fmt::format("is on {}: replicas live on the CPU so far. Move the module there first.",
                     tensor.device().str()));
  if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kDouble)
    fail(
        fmt::format("is of type {}: gradients are reduced in Float or Double. Convert the module "
                    "with to(torch::kFloat) first.",
                    type_name(tensor)));
  if (tensor.scalar_type() != type)
    fail(
        fmt::format("is of type {}, those before it are {}: parameters that train must be of one "
                    "type. Convert the module first.",
                    type_name(tensor), c10::toString(type)));
}

}  // namespace

ModuleParams params_of(torch::nn::Module& module, std::size_t blocks) {
  ModuleParams result;
  result.reads.resize(blocks);
  std::map<c10::TensorImpl*, int> seen;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) continue;
    if (!tensor.requires_grad()) {
      result.others.push_back(tensor);
      continue;
    }
    const auto [place, is_new] =
        seen.emplace(tensor.unsafeGetTensorImpl(), static_cast<int>(result.params.size()));
    const int layer = blocks > 0 ? child_of(item.key()) : 0;
    if (blocks > 0) result.reads[static_cast<std::size_t>(layer)].push_back(place->second);
    if (!is_new) continue;
    if (result.params.empty()) result.type = tensor.scalar_type();
    check(item.key(), tensor, result.type);
    result.params.push_back({.name = item.key(), .shape = tensor.sizes().vec(), .layer = layer});
    result.tensors.push_back(tensor);
  }
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) result.others.push_back(item.value());
  }
  if (result.params.empty()) {
    throw core::ConfigError(
        "the module has no parameter that requires a gradient: there is nothing to train. "
        "Register its parameters (register_parameter, register_module) first.");
  }
  return result;
}

std::vector<std::string> lines_of(const ModuleParams& params) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < params.params.size(); ++i) {
    lines.push_back(fmt::format("{} [{}] {}", params.params[i].name,
                                fmt::join(params.params[i].shape, ", "),
                                type_name(params.tensors[i])));
  }
  for (const at::Tensor& other : params.others) {
    lines.push_back(
        fmt::format("buffer [{}] {}", fmt::join(other.sizes(), ", "), type_name(other)));
  }
  return lines;
}

}  // namespace tutti
