// Bytes that spec predicts for a rank, term by term, against the tensors that a step makes.
// The oracle is an allocator that counts: memory of a size class is kept from its first use on, so
// what a process ends up with is, per size, the most blocks that were alive at once.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "model/attention_kernels.h"
#include "model/build.h"
#include "parallel/pipeline.h"
#include "spec/memory.h"
#include "spec/own_runtime.h"
#include "train/optimizer.h"

namespace tutti {
namespace {

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    const std::size_t whole = (bytes + kLine - 1) / kLine * kLine;
    auto* block = static_cast<std::byte*>(std::aligned_alloc(kLine, kLine + whole));
    if (block == nullptr) throw std::bad_alloc();
    new (block) Header{this, bytes};
    const std::lock_guard lock(mutex_);
    Use& use = uses_[bytes];
    use.most = std::max(use.most, ++use.alive);
    return {block + kLine, block + kLine, &release, cpu};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// Bytes of all blocks of `size` bytes that were alive at once.
  [[nodiscard]] std::size_t kept(std::size_t size) const {
    const auto found = uses_.find(size);
    return found == uses_.end() ? 0 : size * found->second.most;
  }
  [[nodiscard]] std::size_t kept() const {
    std::size_t sum = 0;
    for (const auto& [size, use] : uses_) sum += size * use.most;
    return sum;
  }
  /// What is alive stays counted.
  void forget() {
    const std::lock_guard lock(mutex_);
    for (auto& [size, use] : uses_) use.most = use.alive;
  }

 private:
  static constexpr std::size_t kLine = 64;
  struct Header {
    CountingAllocator* owner;
    std::size_t bytes;
  };
  struct Use {
    std::size_t alive = 0, most = 0;
  };

  static void release(void* data) {
    if (data == nullptr) return;
    std::byte* block = static_cast<std::byte*>(data) - kLine;
    const Header header = *reinterpret_cast<Header*>(block);
    {
      const std::lock_guard lock(header.owner->mutex_);
      --header.owner->uses_[header.bytes].alive;
    }
    std::free(block);
  }

  std::mutex mutex_;
  std::map<std::size_t, Use> uses_;
};

// Never destroyed: tensors may live as long as the process.
CountingAllocator& counting() {
  static auto* const allocator = [] {
    auto* made = new CountingAllocator;
    c10::SetCPUAllocator(made, /*priority=*/1);
    return made;
  }();
  return *allocator;
}

struct Case {
  const char* name;
  spec::ModelOptions model;
  int micro;
  spec::Recompute recompute = spec::Recompute::None;
};

std::int64_t lanes(const model::AttentionKernels& kernels) {
  return kernels.name == std::string("avx512") ? 16 : 8;
}

/// One rank that has made a step of two micro-batches.
class Rank {
 public:
  explicit Rank(const Case& of) : of_(of), spec_(describe(of.model)) {
    const std::size_t before = counting().kept();
    replica_.emplace(spec_, parallel::ReplicaGroups{}, parallel::ReplicaOptions{}, nullptr);
    stage_.emplace(
        model::build_stage(spec_, *replica_, {.seed = 1, .recompute = of.recompute}, nullptr));
    optimizer_.emplace(spec_, *replica_, train::OptimOptions{});
    model::initialise(spec_, *replica_, /*seed=*/1);
    const std::vector<parallel::MicroBatch> batches = {batch(), batch()};
    counting().forget();
    states_ = counting().kept() - before;
    replica_->begin_step(2);
    parallel::run_pipeline(schedule::one_stage(2), *stage_, replica_->weight_grads(), batches,
                           nullptr);
    replica_->wait_grads();
    working_ = counting().kept() - states_ - before;
    optimizer_->step(1e-3, 1);
  }

  [[nodiscard]] spec::MemoryTerms predicted() const {
    spec::MemoryLayout layout{
        .micro = of_.micro, .sequence = of_.model.context, .recompute = of_.recompute};
    layout.microbatches = 2;
    return spec::stage_memory(spec::graph(spec_.model), layout,
                              spec::own_runtime({.attention = attention()}), 0);
  }

  [[nodiscard]] spec::AttentionWork attention() const {
    const std::int64_t heads = of_.micro * spec_.model.heads;
    return {.tokens = of_.model.context,
            .head_size = of_.model.hidden / of_.model.heads,
            .threads = std::min<std::int64_t>(at::get_num_threads(), heads),
            .lanes = lanes(model::best_attention_kernels())};
  }

  [[nodiscard]] std::size_t parameters() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < spec_.params.size(); ++i)
      sum += replica_->value(static_cast<int>(i)).nbytes();
    return sum;
  }
  [[nodiscard]] std::size_t gradients() const {
    std::size_t sum = 0;
    for (const parallel::ShardView& piece : replica_->updated()) sum += piece.grad.nbytes();
    return sum;
  }
  [[nodiscard]] std::size_t optimizer() const {
    std::size_t sum = 0;
    for (std::size_t which = 0; which < optimizer_->state_names().size(); ++which) {
      for (const at::Tensor& state : optimizer_->state(which)) sum += state.nbytes();
    }
    return sum;
  }
  /// The head's piece of logits is the one block of its size.
  [[nodiscard]] std::size_t logits() const {
    const std::size_t rows = std::min(256, of_.micro * of_.model.context);
    return counting().kept(rows * static_cast<std::size_t>(of_.model.vocab) * sizeof(float));
  }
  [[nodiscard]] std::size_t activations() const { return working_ - logits(); }

 private:
  static spec::ModelSpec describe(const spec::ModelOptions& model) {
    std::vector<core::Problem> problems;
    const spec::ModelOptions resolved = spec::resolve(model, model.vocab, problems);
    core::throw_if_any(problems);
    return spec::describe(resolved);
  }

  [[nodiscard]] parallel::MicroBatch batch() const {
    const std::int64_t rows = of_.micro * of_.model.context;
    parallel::MicroBatch batch;
    batch.tokens_N = at::arange(rows, at::kLong).remainder(of_.model.vocab);
    batch.targets_N = (batch.tokens_N + 1).remainder(of_.model.vocab);
    batch.sequence = of_.model.context;
    batch.samples.resize(static_cast<std::size_t>(of_.micro));
    batch.scale = 1.0 / (2.0 * static_cast<double>(rows));
    return batch;
  }

  Case of_;
  spec::ModelSpec spec_;
  std::optional<parallel::Replica> replica_;
  std::optional<parallel::Stage> stage_;
  std::optional<train::Optimizer> optimizer_;
  std::size_t states_ = 0, working_ = 0;
};

double error(spec::Count predicted, std::size_t measured) {
  return predicted.real() / static_cast<double>(measured) - 1;
}

// gtest prints it in place of the bytes.
void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class MemoryTerms : public testing::TestWithParam<Case> {};
std::vector<Case> cases() {
  using enum spec::Recompute;
  const spec::ModelOptions deep = {
      .layers = 8, .hidden = 128, .heads = 4, .vocab = 1000, .context = 192};
  const spec::ModelOptions wide = {
      .layers = 2, .hidden = 512, .heads = 8, .vocab = 3000, .context = 64};
  const spec::ModelOptions gpt2_28m = {
      .layers = 6, .hidden = 384, .heads = 6, .vocab = 50257, .context = 256};
  return {{"deep", deep, 2},
          {"wide", wide, 4},
          {"gpt2_28m", gpt2_28m, 2},
          {"deep_selective", deep, 2, Cheap},
          {"wide_selective", wide, 4, Cheap},
          {"gpt2_28m_selective", gpt2_28m, 2, Cheap},
          {"deep_full", deep, 2, Full},
          {"wide_full", wide, 4, Full},
          {"gpt2_28m_full", gpt2_28m, 2, Full}};
}
INSTANTIATE_TEST_SUITE_P(Sizes, MemoryTerms, testing::ValuesIn(cases()),
                         [](const auto& of) { return of.param.name; });

TEST_P(MemoryTerms, AreTheBytesOfTheTensorsTheyName) {
  const Rank rank(GetParam());
  const spec::MemoryTerms terms = rank.predicted();
  EXPECT_EQ(terms.parameters, spec::Count(static_cast<std::int64_t>(rank.parameters())));
  EXPECT_EQ(terms.gradients, spec::Count(static_cast<std::int64_t>(rank.gradients())));
  EXPECT_EQ(terms.optimizer, spec::Count(static_cast<std::int64_t>(rank.optimizer())));
  EXPECT_EQ(terms.logits, spec::Count(static_cast<std::int64_t>(rank.logits())));
  RecordProperty("error", std::to_string(error(terms.activations, rank.activations())));
  EXPECT_NEAR(error(terms.activations, rank.activations()), 0, 0.05)
      << "predicted " << terms.activations.value() << ", measured " << rank.activations();
}

TEST(AttentionScratch, IsThatOfTheKernels) {
  for (const model::AttentionKernels* kernels : model::runnable_attention_kernels()) {
    for (const std::size_t tokens : {1, 64, 192, 256, 1000}) {
      for (const std::size_t size : {16, 32, 64, 80, 128}) {
        const auto counted = static_cast<std::size_t>(
            spec::attention_scratch({.tokens = static_cast<std::int64_t>(tokens),
                                     .head_size = static_cast<std::int64_t>(size),
                                     .lanes = lanes(*kernels)}));
        const std::size_t taken =
            kernels->forward_scratch(tokens, size) + kernels->backward_scratch(tokens, size);
        SCOPED_TRACE(testing::Message() << kernels->name << ", " << tokens << " x " << size);
        EXPECT_LE(taken, counted);
        if (kernels->name != std::string("baseline")) {
          EXPECT_EQ(taken, counted);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti
