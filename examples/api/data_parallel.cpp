// A network of one's own on several ranks, in a loop of one's own: it learns where a point of a
// spiral belongs.
//
//   tutti launch -n 2 -- ./data_parallel [steps]
//
// Every rank sees other points. Four micro-batches make a step and communicate once, while the last
// backward runs.
#include <torch/nn/functional.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <tutti/tutti.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

struct Net : torch::nn::Module {
  Net() {
    in = register_module("in", torch::nn::Linear(2, 64));
    hidden = register_module("hidden", torch::nn::Linear(64, 64));
    out = register_module("out", torch::nn::Linear(64, 2));
  }
  torch::Tensor forward(torch::Tensor x) { return out(torch::tanh(hidden(torch::tanh(in(x))))); }
  torch::nn::Linear in{nullptr}, hidden{nullptr}, out{nullptr};
};

struct Points {
  torch::Tensor x, label;
};

// Points of two arms; the global numbers first .. first + count decide them, so that any number of
// ranks sees the same set.
Points points(std::int64_t first, std::int64_t count) {
  Points result{torch::empty({count, 2}), torch::empty({count}, torch::kLong)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto t = static_cast<double>((first + i) * 7919 % 1000) / 1000;
    const std::int64_t arm = (first + i) % 2;
    const double angle = 6 * t + M_PI * static_cast<double>(arm);
    result.x[i][0] = t * std::cos(angle);
    result.x[i][1] = t * std::sin(angle);
    result.label[i] = arm;
  }
  return result;
}

int main(int argc, char** argv) {
  constexpr std::int64_t kMicroBatches = 4, kBatch = 128;  // of all ranks
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;

  auto world = tutti::init();
  torch::manual_seed(1 + world.rank());  // even so all ranks start with rank 0's parameters
  Net net;
  tutti::Replica replica(net, world.group("dp"));
  torch::optim::AdamW optimizer(replica.parameters(), torch::optim::AdamWOptions(3e-3));

  const std::int64_t own = kBatch / world.size();
  for (int step = 0; step < steps; ++step) {
    torch::Tensor loss = torch::zeros({1});
    for (std::int64_t micro = 0; micro < kMicroBatches; ++micro) {
      const auto [x, label] =
          points((step * kMicroBatches + micro) * kBatch + world.rank() * own, own);
      auto quiet = replica.no_sync(micro + 1 < kMicroBatches);
      torch::Tensor part =
          torch::nn::functional::cross_entropy(net.forward(x), label) / kMicroBatches;
      part.backward();
      loss += part.detach();
    }
    replica.wait();
    optimizer.step();
    optimizer.zero_grad();

    if (step % 50 == 0 || step + 1 == steps) {
      world.group("dp").all_reduce(loss, tutti::Op::Average);
      if (world.rank() == 0) std::printf("step %d  loss %.6f\n", step + 1, loss.item<double>());
    }
  }
}
