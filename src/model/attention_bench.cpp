// Causal attention of one layer of GPT-2 124M (12 heads of 64) on a fused tensor, one thread: ours,
// per instruction set, and LibTorch's flash kernel with the copies that its gradients need. One
// item = one operation of the half of the products that a causal mask leaves: compare items per
// second with bench/matrix_peak.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "model/attention_kernels.h"
#include "tensor/runtime.h"
#include "tensor/torch.h"

namespace {

using namespace tutti;

constexpr std::int64_t kHeads = 12, kSize = 64, kWidth = kHeads * kSize;

struct Layer {
  explicit Layer(std::int64_t tokens_)
      : tokens(tokens_),
        qkv(at::randn({tokens, 3 * kWidth})),
        gy(at::randn({tokens, kWidth})),
        y(at::empty({tokens, kWidth})),
        gqkv(at::empty_like(qkv)),
        log_sums(at::empty({kHeads, tokens})) {}

  // [1, H, T, D] views.
  [[nodiscard]] at::Tensor part(const at::Tensor& fused, std::int64_t i) const {
    return fused.view({1, tokens, 3, kHeads, kSize}).select(2, i).transpose(1, 2);
  }
  [[nodiscard]] auto libtorch_forward() const {
    return at::_scaled_dot_product_flash_attention_for_cpu(part(qkv, 0), part(qkv, 1), part(qkv, 2),
                                                           0.0, true);
  }
  void libtorch_backward(const at::Tensor& y_BHTD, const at::Tensor& sums) const {
    const auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gy.view({1, tokens, kHeads, kSize}).transpose(1, 2), part(qkv, 0), part(qkv, 1),
        part(qkv, 2), y_BHTD, sums, 0.0, true);
    part(gqkv, 0).copy_(gq);
    part(gqkv, 1).copy_(gk);
    part(gqkv, 2).copy_(gv);
  }
  template <class F>
  void for_heads(F f) {
    for (std::int64_t i = 0; i < kHeads; ++i) {
      const float* q = qkv.const_data_ptr<float>() + i * kSize;
      f(i, model::AttentionHead{static_cast<std::size_t>(tokens), kSize, 3 * kWidth, q, q + kWidth,
                                q + 2 * kWidth, kWidth});
    }
  }
  void forward(const model::AttentionKernels& kernels, float* scratch) {
    for_heads([&](std::int64_t i, const model::AttentionHead& head) {
      kernels.forward(head, y.data_ptr<float>() + i * kSize,
                      log_sums.data_ptr<float>() + i * tokens, scratch);
    });
  }
  void backward(const model::AttentionKernels& kernels, float* scratch) {
    for_heads([&](std::int64_t i, const model::AttentionHead& head) {
      float* gq = gqkv.data_ptr<float>() + i * kSize;
      kernels.backward(head,
                       {y.data_ptr<float>() + i * kSize, gy.data_ptr<float>() + i * kSize,
                        log_sums.data_ptr<float>() + i * tokens, gq, gq + kWidth, gq + 2 * kWidth},
                       scratch);
    });
  }
  [[nodiscard]] std::int64_t forward_flops() const { return 2 * tokens * tokens * kWidth; }

  std::int64_t tokens;
  at::Tensor qkv, gy, y, gqkv, log_sums;
};

// Whether the root mean square of the difference is small beside that of the values.
bool near(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>() < 1e-5;
}

void BM_LibTorch(benchmark::State& state, bool backward) {
  const Layer layer(state.range(0));
  auto [y_BHTD, sums] = layer.libtorch_forward();
  for (auto _ : state) {
    if (backward) {
      layer.libtorch_backward(y_BHTD, sums);
    } else {
      benchmark::DoNotOptimize(layer.libtorch_forward());
    }
  }
  state.SetItemsProcessed(state.iterations() * layer.forward_flops() * (backward ? 5 : 2) / 2);
}

void BM_Ours(benchmark::State& state, const model::AttentionKernels* kernels, bool backward) {
  Layer layer(state.range(0));
  const auto tokens = static_cast<std::size_t>(layer.tokens);
  const at::Tensor scratch = at::empty({static_cast<std::int64_t>(std::max(
      kernels->forward_scratch(tokens, kSize), kernels->backward_scratch(tokens, kSize)))});
  auto* floats = scratch.data_ptr<float>();
  layer.forward(*kernels, floats);
  layer.backward(*kernels, floats);
  const auto [y_BHTD, sums] = layer.libtorch_forward();
  const at::Tensor ours = layer.gqkv.clone();
  layer.libtorch_backward(y_BHTD, sums);
  if (!near(layer.y, y_BHTD.transpose(1, 2).reshape({layer.tokens, kWidth})) ||
      !near(ours, layer.gqkv)) {
    return state.SkipWithError("other values than LibTorch");
  }
  for (auto _ : state) {
    if (backward) {
      layer.backward(*kernels, floats);
    } else {
      layer.forward(*kernels, floats);
    }
  }
  state.SetItemsProcessed(state.iterations() * layer.forward_flops() * (backward ? 5 : 2) / 2);
}

void add(benchmark::internal::Benchmark* made) {
  made->ArgName("tokens")->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  tensor::set_up_runtime(1);
  for (const bool backward : {false, true}) {
    const std::string pass = backward ? "backward" : "forward";
    add(benchmark::RegisterBenchmark(("libtorch/" + pass).c_str(), BM_LibTorch, backward));
    for (const model::AttentionKernels* kernels : model::runnable_attention_kernels()) {
      const std::string name = std::string("ours/") + kernels->name + "/" + pass;
      add(benchmark::RegisterBenchmark(name.c_str(), BM_Ours, kernels, backward));
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
