// The narrow part of LibTorch that the upper half uses, precompiled once: tensors, operators,
// autograd functions. Not torch/torch.h: that would triple the time of every file.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>
