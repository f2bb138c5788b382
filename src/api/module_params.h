// A foreign module as tutti's list of parameters.
#pragma once

#include <string>
#include <vector>

#include "api/tutti/tutti.h"
#include "spec/param.h"
#include "tensor/torch.h"

namespace tutti {

/// The parameters of a module that train, each once, in the module's order. `layer` is the block
/// that a parameter is first found in; a module without blocks is one.
struct ModuleParams {
  std::vector<spec::Param> params;
  std::vector<at::Tensor> tensors;      // the module's own, as params
  std::vector<at::Tensor> others;       // buffers, and parameters that need no gradient
  std::vector<std::vector<int>> reads;  // per block: what it reads
  at::ScalarType type = at::kFloat;
};

/// `in_blocks`: the module's children are blocks that run one after the other. Throws
/// core::ConfigError for types, devices and modules that cannot be trained, naming the parameter.
ModuleParams params_of(torch::nn::Module& module, bool in_blocks);

/// What must be equal on all ranks, a line per parameter: "fc.weight [4, 3] Float".
std::vector<std::string> lines_of(const ModuleParams& params);

}  // namespace tutti
