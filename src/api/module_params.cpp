#include "api/module_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/variable.h>

#include <map>

#include "core/error.h"

namespace tutti {
namespace {

struct Found {
  std::string name;  // in the whole module
  at::Tensor tensor;
  int block;
};

std::vector<Found> parameters_in_order(const torch::nn::Module& module, bool in_blocks) {
  std::vector<Found> all;
  const auto add = [&](const std::string& prefix, const auto& named, int block) {
    for (const auto& item : named) {
      if (item.value().defined()) all.push_back({prefix + item.key(), item.value(), block});
    }
  };
  add("", module.named_parameters(/*recurse=*/!in_blocks), 0);
  if (!in_blocks) return all;
  int block = 0;
  for (const auto& child : module.named_children()) {
    add(child.key() + ".", child.value()->named_parameters(), block++);
  }
  return all;
}

std::string type_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

void check(const std::string& name, const at::Tensor& tensor, at::ScalarType type) {
  const auto fail = [&](const std::string& text) {
    throw core::ConfigError(fmt::format("parameter {} {}", name, text));
  };
  if (!tensor.device().is_cpu())
    fail(fmt::format("is on {}: replicas live on the CPU so far. Move the module there first.",
                     tensor.device().str()));
  if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kDouble &&
      tensor.scalar_type() != at::kBFloat16)
    fail(
        fmt::format("is of type {}: modules train in Float, Double or BFloat16. Convert the module "
                    "with to(torch::kFloat) first.",
                    type_name(tensor)));
  if (tensor.scalar_type() != type)
    fail(
        fmt::format("is of type {}, those before it are {}: parameters that train must be of one "
                    "type. Convert the module first.",
                    type_name(tensor), c10::toString(type)));
  if (torch::autograd::impl::post_acc_grad_hooks(tensor) != nullptr)
    fail(
        "has a hook behind its gradient already: another replica has it, or the program does. End "
        "that replica first, or leave the hook out.");
}

}  // namespace

ModuleParams params_of(torch::nn::Module& module, bool in_blocks) {
  ModuleParams result;
  if (in_blocks) result.reads.resize(module.children().size());
  std::map<c10::TensorImpl*, int> seen;
  for (const auto& [name, tensor, block] : parameters_in_order(module, in_blocks)) {
    if (!tensor.requires_grad()) {
      result.others.push_back(tensor);
      continue;
    }
    const auto [place, is_new] =
        seen.emplace(tensor.unsafeGetTensorImpl(), static_cast<int>(result.params.size()));
    if (in_blocks) result.reads[static_cast<std::size_t>(block)].push_back(place->second);
    if (!is_new) continue;
    if (result.params.empty()) result.type = tensor.scalar_type();
    check(name, tensor, result.type);
    result.params.push_back({.name = name, .shape = tensor.sizes().vec(), .layer = block});
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
