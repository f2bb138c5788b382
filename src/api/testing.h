// A module, its batches and ranks as threads, for the tests of replicas.
#pragma once

#include <torch/nn/modules/linear.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "api/handles.h"
#include "api/tutti/tutti.h"
#include "comm/testing.h"

namespace tutti::testing {

// Two linear layers, one of them used twice and known by a second name.
struct Net : torch::nn::Module {
  explicit Net(int width, std::uint64_t seed = 7) {
    in = register_module("in", torch::nn::Linear(3, width));
    out = register_module("out", torch::nn::Linear(width, 2));
    register_parameter("tied", out->weight);
    unused = register_parameter("unused", at::zeros({5}));
    frozen = register_parameter("frozen", at::zeros({2}), /*requires_grad=*/false);
    seen = register_buffer("seen", at::full({1}, static_cast<double>(seed)));
    const at::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(seed);
    for (const at::Tensor& each : trained()) each.detach().normal_(0, 0.5, generator);
  }
  /// Each once.
  [[nodiscard]] std::vector<at::Tensor> trained() const {
    return {in->weight, in->bias, out->weight, out->bias, unused};
  }
  at::Tensor forward(const at::Tensor& x, bool use_unused = false) {
    const at::Tensor y = at::tanh(in(x));
    const at::Tensor z = out(y) + out(y * 0.5);  // a weight with two uses
    return use_unused ? z + unused.sum() : z;
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  at::Tensor unused, frozen, seen;
};

inline at::Tensor batch(int number) {
  return at::randn({4, 3}, at::detail::createCPUGenerator(100 + static_cast<unsigned>(number)),
                   at::kFloat);
}

inline at::Tensor loss(const at::Tensor& y) { return y.square().mean(); }

inline std::vector<std::string> on_ranks(int ranks,
                                         const std::function<void(const Group&, int)>& body) {
  return comm::testing::run_as_threads(ranks, [&](comm::World& world, int rank) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    body(Group(std::make_shared<Group::State>(
             Group::State{.group = backend::Group(world.group("dp", all)),
                          .gathers = backend::Group(world.group("dp parameters", all)),
                          .ranks = all,
                          .world = &world})),
         rank);
  });
}

// Plain SGD by hand, so that rounding is all that can differ.
inline void update(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : parameters) {
    if (each.grad().defined()) each.detach().sub_(each.grad() * 0.1);
  }
}

// What two steps make of Net on one process that sees the micro-batches of all ranks.
inline std::vector<at::Tensor> expected(int ranks, int micro_batches) {
  Net net(6);
  for (int step = 0; step < 2; ++step) {
    net.zero_grad();
    for (int i = 0; i < ranks * micro_batches; ++i)
      (loss(net.forward(batch(100 * step + i))) / ranks).backward();
    update(net.trained());
  }
  return net.trained();
}

}  // namespace tutti::testing
