// Values and gradients of our layers against LibTorch's own autograd in fp64, and contributions
// that add up.
#include "parallel/functions.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "parallel/testing.h"
#include "parallel/vocabulary.h"

namespace tutti::parallel {
namespace {

using parallel::testing::expect_close;
using parallel::testing::leaf;
using parallel::testing::Slots;

class Functions : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(1); }
  Slots slots;
};

TEST_F(Functions, LinearIsThatOfLibTorch) {
  const at::Tensor x = leaf({6, 5}), w = leaf({4, 5}), b = leaf({4}),
                   gy = at::randn({6, 4}, at::kDouble);
  const at::Tensor y = at::linear(x, w, b);
  y.backward(gy);
  const Weight our_w = slots.weight(0, w), our_b = slots.weight(1, b);
  for (int pass = 1; pass <= 2; ++pass) {  // the first overwrites, the second adds
    const at::Tensor our_x = x.detach().clone().requires_grad_();
    const at::Tensor our_y = linear(our_x, our_w, our_b);
    our_y.backward(gy);
    expect_close(our_y, y);
    expect_close(our_x.grad(), x.grad());
    expect_close(slots.slot(0), pass * w.grad());
    expect_close(slots.slot(1), pass * b.grad());
  }
}

TEST_F(Functions, LinearNeedsNoBias) {
  const at::Tensor x = leaf({6, 5}), w = leaf({4, 5});
  const Weight our_w = slots.weight(0, w), none;
  expect_close(linear(x, our_w, none), at::linear(x, w));
}

TEST_F(Functions, LinearAddsAResidualWithOrWithoutABias) {
  const at::Tensor x = leaf({6, 5}), w = leaf({4, 5}), b = leaf({4}), r = leaf({6, 4}),
                   gy = at::randn({6, 4}, at::kDouble);
  const at::Tensor y = r + at::linear(x, w, b);
  y.backward(gy);
  const Weight our_w = slots.weight(0, w), our_b = slots.weight(1, b), none;
  const at::Tensor our_x = x.detach().clone().requires_grad_();
  const at::Tensor our_r = r.detach().clone().requires_grad_();
  const at::Tensor our_y = linear_residual(our_x, our_w, our_b, our_r);
  our_y.backward(gy);
  expect_close(our_y, y);
  expect_close(our_x.grad(), x.grad());
  expect_close(our_r.grad(), r.grad());
  expect_close(slots.slot(0), w.grad());
  expect_close(slots.slot(1), b.grad());
  expect_close(linear_residual(x, our_w, none, r), r + at::linear(x, w));
}

TEST_F(Functions, LinearOfANormIsThatOfLibTorch) {
  const at::Tensor x = leaf({6, 5}), nw = leaf({5}), nb = leaf({5}), w = leaf({4, 5}),
                   b = leaf({4}), gy = at::randn({6, 4}, at::kDouble);
  const at::Tensor y = at::linear(at::layer_norm(x, {5}, nw, nb, 1e-5), w, b);
  y.backward(gy);
  for (const Keep keep : {Keep::Input, Keep::Source}) {
    Slots own;
    const Weight our_nw = own.weight(0, nw), our_nb = own.weight(1, nb), our_w = own.weight(2, w),
                 our_b = own.weight(3, b), none;
    const at::Tensor our_x = x.detach().clone().requires_grad_();
    const at::Tensor our_y = linear_of_norm(our_x, our_nw, our_nb, our_w, our_b, keep);
    our_y.backward(gy);
    expect_close(our_y, y);
    expect_close(our_x.grad(), x.grad());
    for (const auto& [slot, grad] :
         {std::pair(0, nw.grad()), {1, nb.grad()}, {2, w.grad()}, {3, b.grad()}}) {
      expect_close(own.slot(slot), grad);
    }
    expect_close(linear_of_norm(x, our_nw, our_nb, our_w, none, keep), y - b);
  }
}

// 70 rows and 300 columns: more than one tile of the bias's sum, the last one short.
TEST_F(Functions, LinearOfAGeluIsThatOfLibTorch) {
  const at::Tensor h = leaf({70, 300}), c = leaf({300}), w = leaf({4, 300}), b = leaf({4}),
                   r = leaf({70, 4}), gy = at::randn({70, 4}, at::kDouble);
  const at::Tensor y = r + at::linear(at::gelu(h + c, "tanh"), w, b);
  y.backward(gy);
  for (const Keep keep : {Keep::Input, Keep::Source}) {
    Slots own;
    const Weight our_c = own.weight(0, c), our_w = own.weight(1, w), our_b = own.weight(2, b);
    for (int pass = 1; pass <= 2; ++pass) {
      const at::Tensor our_h = h.detach().clone().requires_grad_();
      const at::Tensor our_r = r.detach().clone().requires_grad_();
      const at::Tensor our_y = linear_of_gelu(our_h, our_c, our_w, our_b, our_r, keep);
      our_y.backward(gy);
      expect_close(our_y, y);
      expect_close(our_h.grad(), h.grad());
      expect_close(our_r.grad(), r.grad());
      expect_close(own.slot(0), pass * c.grad());
      expect_close(own.slot(1), pass * w.grad());
      expect_close(own.slot(2), pass * b.grad());
    }
    expect_close(linear_of_gelu(h, our_c, our_w, our_b, {}, keep), y - r);
  }
}

TEST_F(Functions, WhatIsMadeAgainHasTheSameBits) {
  const at::Tensor x = at::randn({33, 48}), gy = at::randn({33, 48});
  const at::Tensor nw = at::randn({48}), nb = at::randn({48}), w = at::randn({96, 48}),
                   c = at::randn({96}), w2 = at::randn({48, 96}), b = at::randn({48});
  std::vector<at::Tensor> grads;
  for (const Keep keep : {Keep::Input, Keep::Source}) {
    Slots own;
    const std::vector<at::Tensor> values = {nw, nb, w, c, w2, b};
    std::vector<Weight> weights;
    for (int i = 0; i < 6; ++i) weights.push_back(own.weight(i, values[i]));
    const Weight none;
    const at::Tensor our_x = x.clone().requires_grad_();
    const at::Tensor h = linear_of_norm(our_x, weights[0], weights[1], weights[2], none, keep);
    linear_of_gelu(h, weights[3], weights[4], weights[5], our_x, keep).backward(gy);
    std::vector<at::Tensor> all = {our_x.grad().flatten()};
    for (int i = 0; i < 6; ++i) all.push_back(own.slot(i).flatten());
    grads.push_back(at::cat(all));
  }
  EXPECT_TRUE(at::equal(grads[0], grads[1]));
}

// A block and the head in one graph, as LibTorch's autograd has them in fp64. bf16 rounds what it
// begins with too, so both start from the same numbers.
TEST_F(Functions, Bf16IsThatOfFp64ButForRoundings) {
  const auto rounded = [](at::IntArrayRef shape, double size) {
    return (at::randn(shape) * size).to(at::kBFloat16);
  };
  const at::Tensor x = rounded({300, 48}, 1);
  const std::vector<at::Tensor> values = {
      rounded({48}, 1),       rounded({48}, 1),       rounded({96, 48}, 0.2),
      rounded({96}, 0.2),     rounded({48, 96}, 0.2), rounded({48}, 1),
      rounded({48, 48}, 0.2), rounded({48}, 1),       rounded({70, 48}, 0.2)};
  const at::Tensor targets = at::randint(0, 70, {300}, at::kLong);

  std::vector<at::Tensor> w;
  for (const at::Tensor& value : values)
    w.push_back(value.to(at::kDouble).detach().requires_grad_());
  const at::Tensor wide_x = x.to(at::kDouble).requires_grad_();
  const at::Tensor inner = at::linear(at::layer_norm(wide_x, {48}, w[0], w[1], 1e-5), w[2]);
  const at::Tensor h = wide_x + at::linear(at::gelu(inner + w[3], "tanh"), w[4], w[5]);
  const at::Tensor out = h + at::linear(h, w[6], w[7]);
  const at::Tensor log_p = at::log_softmax(at::mm(out, w[8].t()), 1);
  const at::Tensor loss = -log_p.gather(1, targets.unsqueeze(1)).sum();
  (loss / 300).backward();

  std::vector<Weight> our;
  for (std::size_t i = 0; i < values.size(); ++i)
    our.push_back(slots.weight(static_cast<int>(i), values[i]));
  const Weight none;
  for (int pass = 1; pass <= 2; ++pass) {
    const at::Tensor our_x = x.clone().requires_grad_();
    const at::Tensor our_inner = linear_of_norm(our_x, our[0], our[1], our[2], none);
    const at::Tensor our_h = linear_of_gelu(our_inner, our[3], our[4], our[5], our_x);
    const at::Tensor our_out = linear_residual(our_h, our[6], our[7], our_h);
    EXPECT_EQ(our_out.scalar_type(), at::kBFloat16);
    EXPECT_LE(testing::relative_error(our_out, out), 6e-3);
    const at::Tensor our_loss = head_loss(our_out, targets, our[8], 1.0 / 300, {70});
    EXPECT_NEAR(our_loss.item<double>(), loss.item<double>(), 5e-3 * loss.item<double>());
    our_loss.backward();
    EXPECT_LE(testing::relative_error(our_x.grad(), wide_x.grad()), 1.5e-2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const at::Tensor grad = slots.slot(static_cast<int>(i));
      EXPECT_EQ(grad.scalar_type(), at::kFloat);
      EXPECT_LE(testing::relative_error(grad, pass * w[i].grad()), 1.5e-2) << "weight " << i;
    }
  }
}

TEST_F(Functions, Bf16EmbeddingAddsGradientsInFp32) {
  // 300 times the same word: in bf16 a sum of ones would stand still at 256.
  const at::Tensor tokens = at::zeros({300}, at::kLong);
  const at::Tensor wte = at::ones({2, 3}, at::kBFloat16), wpe = at::ones({4, 3}, at::kBFloat16);
  const Weight our_wte = slots.weight(0, wte), our_wpe = slots.weight(1, wpe);
  const at::Tensor y = embedding(tokens, 3, our_wte, our_wpe, {2});
  EXPECT_TRUE(at::equal(y, at::full({300, 3}, 2, at::kBFloat16)));
  y.backward(at::ones_like(y));
  EXPECT_TRUE(at::equal(slots.slot(0)[0], at::full({3}, 300.0F)));
  EXPECT_TRUE(at::equal(slots.slot(1).narrow(0, 0, 3), at::full({3, 3}, 100.0F)));
}

TEST_F(Functions, NothingDependsOnTheNumberOfThreads) {
  const int before = at::get_num_threads();
  const at::Tensor x = at::randn({257, 520}), w = at::randn({33, 520}), b = at::randn({520});
  std::vector<at::Tensor> sums;
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    Slots own;
    const Weight our_c = own.weight(0, b), our_w = own.weight(1, w), none;
    linear_of_gelu(x.clone().requires_grad_(), our_c, our_w, none, {}).sum().backward();
    sums.push_back(own.slot(0).clone());
  }
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(sums[0], sums[1]));
  EXPECT_TRUE(at::equal(sums[0], sums[2]));
}

TEST_F(Functions, LayerNormIsThatOfLibTorch) {
  const at::Tensor x = leaf({6, 5}), w = leaf({5}), b = leaf({5}),
                   gy = at::randn({6, 5}, at::kDouble);
  const at::Tensor y = at::layer_norm(x, {5}, w, b, 1e-5);
  y.backward(gy);
  const Weight our_w = slots.weight(0, w), our_b = slots.weight(1, b);
  const at::Tensor our_x = x.detach().clone().requires_grad_();
  const at::Tensor our_y = layer_norm(our_x, our_w, our_b);
  our_y.backward(gy);
  expect_close(our_y, y);
  expect_close(our_x.grad(), x.grad());
  expect_close(slots.slot(0), w.grad());
  expect_close(slots.slot(1), b.grad());
}

// Two sequences of three with a token that comes twice, under a context of four.
TEST_F(Functions, EmbeddingAddsTheGradientsOfEqualTokens) {
  const at::Tensor tokens = at::tensor({4, 0, 4, 1, 2, 0}, at::kLong);
  const at::Tensor wte = leaf({5, 3}), wpe = leaf({4, 3}), gy = at::randn({6, 3}, at::kDouble);
  const at::Tensor y = at::embedding(wte, tokens) + wpe.narrow(0, 0, 3).repeat({2, 1});
  y.backward(gy);
  const Weight our_wte = slots.weight(0, wte), our_wpe = slots.weight(1, wpe);
  const at::Tensor our_y = embedding(tokens, 3, our_wte, our_wpe, {5});
  our_y.backward(gy);
  expect_close(our_y, y);
  expect_close(slots.slot(0), wte.grad());
  expect_close(slots.slot(1), wpe.grad());
}

TEST_F(Functions, EmbeddingBeginsAtAnyPosition) {
  const at::Tensor tokens = at::tensor({4, 0}, at::kLong);
  const at::Tensor wte = leaf({5, 3}), wpe = leaf({4, 3}), gy = at::randn({2, 3}, at::kDouble);
  const at::Tensor y = at::embedding(wte, tokens) + wpe.narrow(0, 1, 2);
  y.backward(gy);
  const Weight our_wte = slots.weight(0, wte), our_wpe = slots.weight(1, wpe);
  const at::Tensor our_y = embedding(tokens, 2, our_wte, our_wpe, {5}, /*first=*/1);
  our_y.backward(gy);
  expect_close(our_y, y);
  expect_close(slots.slot(1), wpe.grad());
}

// 300 rows: more than one piece of logits, the last one short. Every seventh target counts nothing.
TEST_F(Functions, HeadLossIsASumWhoseGradientsAreScaled) {
  const double scale = 0.25;
  const at::Tensor x = leaf({300, 4}), w = leaf({7, 4});
  at::Tensor targets = at::randint(0, 7, {300}, at::kLong);
  targets.slice(0, 0, 300, 7).fill_(-1);
  const at::Tensor log_p = at::log_softmax(at::mm(x, w.t()), 1);
  const at::Tensor loss =
      -(log_p.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1) * targets.ge(0)).sum();
  (loss * scale).backward();
  const Weight our_w = slots.weight(0, w);
  const at::Tensor our_x = x.detach().clone().requires_grad_();
  const at::Tensor our_loss = head_loss(our_x, targets, our_w, scale, {7});
  our_loss.backward();
  expect_close(our_loss, loss);
  expect_close(our_x.grad(), x.grad());
  expect_close(slots.slot(0), w.grad());
  EXPECT_EQ(slots.arrivals[0], 1);  // the pieces are one contribution
}

// One token that counts in one micro-batch, nine in the other: a token weighs the same in both. The
// mean of the two means would give the first nine times its weight.
TEST_F(Functions, HeadLossOfUnequalMicroBatchesAddsUpToThatOfTheirTokens) {
  const at::Tensor x = leaf({12, 4}), w = leaf({7, 4});
  at::Tensor targets = at::randint(0, 7, {12}, at::kLong);
  targets.slice(0, 1, 3).fill_(-1);  // of the first micro-batch's three, one is left
  const at::Tensor mean =
      at::cross_entropy_loss(at::mm(x, w.t()), targets, {}, at::Reduction::Mean, -1);
  mean.backward();
  const Weight our_w = slots.weight(0, w);
  double sum = 0;
  for (const auto& [begin, end] : {std::pair(0, 3), std::pair(3, 12)}) {
    const at::Tensor rows = x.detach().slice(0, begin, end).clone().requires_grad_();
    const at::Tensor loss = head_loss(rows, targets.slice(0, begin, end), our_w, 1.0 / 10, {7});
    loss.backward();
    sum += loss.item<double>();
    expect_close(rows.grad(), x.grad().slice(0, begin, end));
  }
  EXPECT_NEAR(sum / 10, mean.item<double>(), 1e-12);
  expect_close(slots.slot(0), w.grad());
}

TEST_F(Functions, HeadLossRefusesATargetOutsideTheVocabulary) {
  const Weight our_w = slots.weight(0, leaf({7, 4}));
  EXPECT_THROW(head_loss(leaf({1, 4}), at::tensor({7}, at::kLong), our_w, 1, {7}), core::RunError);
}

}  // namespace
}  // namespace tutti::parallel
