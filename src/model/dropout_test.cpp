// Dropout's masks: a function of the sample's place, not of how samples share micro-batches.
#include "model/dropout.h"

#include <gtest/gtest.h>

namespace tutti::model {
namespace {

parallel::MicroBatch batch_of(std::vector<std::int64_t> samples, std::int64_t sequence) {
  parallel::MicroBatch batch;
  batch.samples = std::move(samples);
  batch.sequence = sequence;
  return batch;
}

DropoutSite site(double p, int layer = 2, int number = 1) {
  return {.key = core::philox_key(7, "dropout"), .p = p, .layer = layer, .site = number};
}

at::Tensor mask(std::vector<std::int64_t> samples, const DropoutSite& where) {
  return dropout_mask(batch_of(std::move(samples), 6), 10, where, at::kDouble);
}

TEST(Dropout, TheMaskDoesNotDependOnTheMicroBatch) {
  const at::Tensor whole = mask({5, 9, 1LL << 40}, site(0.3));
  const at::Tensor parts =
      at::cat({mask({5}, site(0.3)), mask({9}, site(0.3)), mask({1LL << 40}, site(0.3))});
  EXPECT_TRUE(at::equal(whole, parts));
}

TEST(Dropout, SamplesLayersSitesAndTokensHaveMasksOfTheirOwn) {
  const at::Tensor base = mask({5}, site(0.5));
  EXPECT_FALSE(at::equal(base, mask({6}, site(0.5))));
  EXPECT_FALSE(at::equal(base, mask({5 + (1LL << 32)}, site(0.5))));
  EXPECT_FALSE(at::equal(base, mask({5}, site(0.5, 3))));
  EXPECT_FALSE(at::equal(base, mask({5}, site(0.5, 2, 2))));
  EXPECT_FALSE(at::equal(base[0], base[1]));
}

// 40,000 draws: five standard deviations of the share are 0.01 for p = 0.2.
TEST(Dropout, DropsTheShareAskedForAndKeepsTheMean) {
  const at::Tensor factors = dropout_mask(batch_of({0, 1, 2, 3}, 100), 100, site(0.2), at::kDouble);
  EXPECT_NEAR(factors.eq(0).to(at::kDouble).mean().item<double>(), 0.2, 0.01);
  EXPECT_NEAR(factors.mean().item<double>(), 1, 0.0125);
  EXPECT_TRUE(at::logical_or(factors.eq(0), factors.eq(1.25)).all().item<bool>());
}

// Rows 4 to 10 of two sequences of six: a rank's share under sequence parallelism.
TEST(Dropout, APartOfTheRowsHasTheMaskOfThoseRows) {
  const auto batch = batch_of({3, 4}, 6);
  const at::Tensor rows = mask({3, 4}, site(0.4)).narrow(0, 4, 7);
  EXPECT_TRUE(at::equal(dropout_mask(batch, 10, site(0.4), at::kDouble, {4, 7}), rows));
  const at::Tensor x = at::ones({7, 10}, at::kDouble).requires_grad_();
  const at::Tensor y = dropout(x, batch, site(0.4), {4, 7});
  y.sum().backward();
  EXPECT_TRUE(at::equal(y, rows));
  EXPECT_TRUE(at::equal(x.grad(), rows));
}

TEST(Dropout, BackwardUsesTheMaskOfForward) {
  const at::Tensor x = at::ones({12, 10}, at::kDouble).requires_grad_();
  at::Tensor y;
  {
    const auto batch = batch_of({3, 4}, 6);  // gone before backward
    y = dropout(x, batch, site(0.4), {0, 12});
  }
  y.sum().backward();
  EXPECT_TRUE(at::equal(y, mask({3, 4}, site(0.4))));
  EXPECT_TRUE(at::equal(x.grad(), y));
}

TEST(Dropout, IsTheIdentityWithoutProbabilityOrGradients) {
  const at::Tensor x = at::randn({6, 10}, at::kDouble).requires_grad_();
  EXPECT_TRUE(at::equal(dropout(x, batch_of({0}, 6), site(0), {0, 6}), x));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(dropout(x, batch_of({0}, 6), site(0.9), {0, 6}), x));
}

}  // namespace
}  // namespace tutti::model
