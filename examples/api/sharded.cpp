// A model whose parameters, gradients and optimizer state are shared out: each rank keeps its part,
// and a block's parameters come together just before the block runs, in forward and in backward.
//
//   tutti launch -n 2 -- ./sharded [zero] [steps]
//
// It learns to reverse a sequence of bits. The loss printed is the same at every zero and every
// number of ranks.
#include <torch/nn/functional.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <cstdlib>

namespace nn = torch::nn;

struct Block : nn::Module {
  explicit Block(int width) {
    up = register_module("up", nn::Linear(width, 4 * width));
    down = register_module("down", nn::Linear(4 * width, width));
  }
  torch::Tensor forward(torch::Tensor x) { return x + down(torch::gelu(up(x))); }
  nn::Linear up{nullptr}, down{nullptr};
};

int main(int argc, char** argv) {
  constexpr int kBits = 16, kWidth = 64, kBlocks = 6, kBatch = 64;
  const int zero = argc > 1 ? std::atoi(argv[1]) : 3;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;

  auto world = tutti::init();
  torch::manual_seed(1);
  nn::Sequential blocks(nn::Linear(kBits, kWidth));
  for (int i = 0; i < kBlocks; ++i) blocks->push_back(Block(kWidth));
  blocks->push_back(nn::Linear(kWidth, kBits));

  // share_pages = false keeps private parts even here, where all ranks are on one host.
  tutti::Replica replica(blocks, world.group("dp"), {.zero = zero, .share_pages = false});
  torch::optim::AdamW optimizer(replica.parameters(), torch::optim::AdamWOptions(1e-3));

  const int own = kBatch / world.size();
  for (int step = 0; step < steps; ++step) {
    torch::manual_seed(step);
    const torch::Tensor bits = torch::randint(0, 2, {kBatch, kBits}).to(torch::kFloat);
    const torch::Tensor x = bits.narrow(0, world.rank() * own, own);
    torch::Tensor loss =
        nn::functional::binary_cross_entropy_with_logits(replica.forward(x), x.flip({1}));
    loss.backward();
    replica.wait();
    const double norm = replica.clip_grad_norm(1.0);
    optimizer.step();
    replica.publish();
    optimizer.zero_grad();

    torch::Tensor mean = loss.detach().clone();
    world.group("dp").all_reduce(mean, tutti::Op::Average);
    if (world.rank() == 0 && (step % 20 == 0 || step + 1 == steps)) {
      std::printf("step %d  loss %.6f  gradient norm %.4f\n", step + 1, mean.item<double>(), norm);
    }
  }
}
