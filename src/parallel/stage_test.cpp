// What a stage keeps between forward and backward, and that making it again changes no bit.
#include "parallel/stage.h"

#include <gtest/gtest.h>

#include <optional>

namespace tutti::parallel {
namespace {

/// x^2 times a weight, twice that in training. Remembers what it was called with.
class Square final : public Layer {
 public:
  Square(double weight, bool repeats) : weight_(weight), repeats_(repeats) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] bool repeats() const override { return repeats_; }
  at::Tensor forward(const at::Tensor& x_NC, const MicroBatch& batch) override {
    scales.push_back(batch.scale);
    return x_NC * x_NC * (at::GradMode::is_enabled() ? 2 * weight_ : weight_);
  }
  std::vector<double> scales;

 private:
  std::string name_ = "square";
  double weight_;
  bool repeats_;
};

struct Two {
  explicit Two(bool recompute, bool repeats = true) {
    std::vector<std::unique_ptr<Layer>> layers;
    layers.push_back(std::make_unique<Square>(0.3, repeats));
    layers.push_back(std::make_unique<Square>(1.7, repeats));
    first = static_cast<Square*>(layers.front().get());
    stage.emplace(std::move(layers), nullptr, recompute);
  }
  Square* first;
  std::optional<Stage> stage;
};

TEST(Stage, MakesAgainWhatItDidNotKeepAndGetsTheSameBits) {
  const at::Tensor x = at::randn({5, 7}), gy = at::randn({5, 7});
  at::Tensor expected;
  for (const bool recompute : {false, true}) {
    Two two(recompute);
    two.stage->forward(0, {.scale = 1}, x);
    two.stage->forward(1, {.scale = 2}, x + 1);
    const at::Tensor gx = two.stage->backward(0, gy);
    if (recompute) {
      EXPECT_EQ(two.first->scales, (std::vector<double>{1, 2, 1})) << "of its own micro-batch";
      EXPECT_TRUE(at::equal(gx, expected));
    } else {
      EXPECT_EQ(two.first->scales, (std::vector<double>{1, 2}));
    }
    expected = gx;
    EXPECT_EQ(two.stage->inflight(), 1);
  }
}

TEST(Stage, KeepsWhatCannotBeRepeated) {
  Two two(/*recompute=*/true, /*repeats=*/false);
  two.stage->forward(0, {}, at::randn({2, 3}));
  two.stage->backward(0, at::ones({2, 3}));
  EXPECT_EQ(two.first->scales.size(), 1U);
}

TEST(Stage, KeepsNothingWithoutGradients) {
  const at::NoGradGuard no_grad;
  Two two(/*recompute=*/true);
  EXPECT_FALSE(two.stage->forward(0, {}, at::randn({2, 3})).requires_grad());
  EXPECT_EQ(two.stage->inflight(), 0);
}

}  // namespace
}  // namespace tutti::parallel
