// A foreign module as tutti's list of parameters.
#pragma once

#include <string>
#include <vector>

#include "spec/param.h"
#include "tensor/torch.h"
#include "api/tutti/tutti.h"

namespace tutti {

/// The parameters of a module that train, each once, in the module's order. `layer` is the child of
/// a Sequential that a parameter is first found in, else 0.
struct ModuleParams {
  std::vector<spec::Param> params;
  std::vector<at::Tensor> tensors;      // the module's own, as params
  std::vector<at::Tensor> others;       // buffers, and parameters that need no gradient
  std::vector<std::vector<int>> reads;  // per child of a Sequential: what it reads
  at::ScalarType type = at::kFloat;
};

/// `blocks`: children of a Sequential, 0 for any other module. Throws core::ConfigError for types,
/// devices and modules that cannot be trained, naming the parameter.
ModuleParams params_of(torch::nn::Module& module, std::size_t blocks);

/// What must be equal on all ranks, a line per parameter: "fc.weight [4, 3] Float".
std::vector<std::string> lines_of(const ModuleParams& params);

}  // namespace tutti
