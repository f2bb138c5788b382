// Causal attention as the model calls it: against LibTorch's primitive operators in fp64, on every
// path, and at any number of threads.
#include "model/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/testing.h"

namespace tutti::model {
namespace {

struct Case {
  std::int64_t sequences, tokens, heads, size;
  at::ScalarType type = at::kFloat;
  std::int64_t sharing = 1;  // query heads of a key head
  [[nodiscard]] HeadCounts counts() const { return {heads, heads / sharing}; }
};
void PrintTo(const Case& of, std::ostream* out) {
  *out << of.sequences << " x " << of.tokens << " tokens, " << of.heads << " heads of " << of.size
       << ", " << c10::toString(of.type) << ", " << of.sharing << " on a key head";
}

parallel::MicroBatch batch_of(const Case& of) {
  parallel::MicroBatch batch;
  batch.sequence = of.tokens;
  batch.samples.resize(static_cast<std::size_t>(of.sequences));
  return batch;
}

at::Tensor input(const Case& of) {
  const std::int64_t width = (of.heads + 2 * of.heads / of.sharing) * of.size;
  return at::randn({of.sequences * of.tokens, width}, at::kDouble).to(of.type);
}

// q, k, v of every query head, [B, T, H, D].
std::vector<at::Tensor> parts_of(const at::Tensor& qkv_NF, const Case& of) {
  if (of.sharing == 1)
    return qkv_NF.view({of.sequences, of.tokens, 3, of.heads, of.size}).unbind(2);
  const at::Tensor groups =
      qkv_NF.view({of.sequences, of.tokens, of.heads / of.sharing, of.sharing + 2, of.size});
  std::vector<at::Tensor> q, k, v;
  for (std::int64_t head = 0; head < of.heads; ++head) {
    const at::Tensor group = groups.select(2, head / of.sharing);
    q.push_back(group.select(2, head % of.sharing));
    k.push_back(group.select(2, of.sharing));
    v.push_back(group.select(2, of.sharing + 1));
  }
  return {at::stack(q, 2), at::stack(k, 2), at::stack(v, 2)};
}

// softmax(q k^T / sqrt(D) + mask) v of fp64 operators whose gradients autograd knows.
at::Tensor oracle(const at::Tensor& qkv_NF, const Case& of) {
  const auto parts = parts_of(qkv_NF, of);
  const at::Tensor q = parts[0].transpose(1, 2), k = parts[1].transpose(1, 2),
                   v = parts[2].transpose(1, 2);
  const at::Tensor mask = at::full({of.tokens, of.tokens}, -INFINITY, at::kDouble).triu(1);
  const at::Tensor scores =
      at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(of.size)) + mask;
  return at::matmul(at::softmax(scores, 3), v)
      .transpose(1, 2)
      .reshape({of.sequences * of.tokens, of.heads * of.size});
}

using parallel::testing::relative_error;

struct Result {
  at::Tensor y, gqkv;
};

Result run(const at::Tensor& x, const at::Tensor& gy, const Case& of) {
  const at::Tensor qkv = x.detach().clone().requires_grad_();
  const at::Tensor y = causal_attention(qkv, of.counts(), batch_of(of), {});
  y.backward(gy);
  return {y.detach(), qkv.grad()};
}

class CausalAttention : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::manual_seed(3); }
};
INSTANTIATE_TEST_SUITE_P(
    Sizes, CausalAttention,
    testing::Values(Case{1, 1, 1, 16}, Case{1, 65, 1, 64}, Case{3, 7, 2, 16}, Case{2, 65, 5, 32},
                    Case{2, 257, 3, 64}, Case{3, 100, 2, 80},
                    Case{2, 33, 3, 20},  // no kernel of ours: LibTorch's
                    Case{2, 65, 3, 32, at::kDouble}, Case{2, 65, 3, 32, at::kBFloat16},
                    Case{2, 33, 3, 20, at::kBFloat16}, Case{2, 65, 4, 32, at::kFloat, 2},
                    Case{3, 70, 6, 16, at::kFloat, 6}, Case{2, 33, 4, 20, at::kFloat, 2},
                    Case{2, 33, 4, 20, at::kDouble, 4}, Case{2, 65, 4, 32, at::kBFloat16, 2}));

TEST_P(CausalAttention, AndItsGradientAreThoseOfTheFormula) {
  const Case of = GetParam();
  const at::Tensor x = input(of), gy = at::randn({x.size(0), of.heads * of.size}, x.options());
  const at::Tensor wide = x.to(at::kDouble).requires_grad_();
  const at::Tensor expected = oracle(wide, of);
  expected.backward(gy.to(at::kDouble));
  const Result found = run(x, gy, of);
  const double bound = of.type == at::kBFloat16 ? 1e-2
                       : of.type == at::kDouble ? 1e-12
                       : of.tokens < 16         ? 5e-6
                                                : 1e-6;
  EXPECT_LE(relative_error(found.y, expected), bound);
  EXPECT_LE(relative_error(found.gqkv, wide.grad()), bound);
}

TEST_P(CausalAttention, HasTheSlopeOfItsOwnValues) {
  const Case of = GetParam();
  if (of.type == at::kBFloat16) return;  // steps that its roundings do not swallow are too long
  const at::Tensor x = input(of), gy = at::randn({x.size(0), of.heads * of.size}, x.options());
  const at::Tensor direction = at::randn_like(x);
  const Result found = run(x, gy, of);
  const double step = 1e-2;
  const auto value = [&](double along) {
    const at::NoGradGuard no_grad;
    const at::Tensor y = causal_attention(x + along * direction, of.counts(), batch_of(of), {});
    return (y.to(at::kDouble) * gy.to(at::kDouble)).sum().item<double>();
  };
  const double slope = (value(step) - value(-step)) / (2 * step);
  const double expected =
      (found.gqkv.to(at::kDouble) * direction.to(at::kDouble)).sum().item<double>();
  EXPECT_NEAR(slope, expected, 2e-3 * found.gqkv.norm().item<double>());
}

TEST_P(CausalAttention, HasTheSameBitsAtAnyNumberOfThreadsAndInEveryRun) {
  const Case of = GetParam();
  const at::Tensor x = input(of), gy = at::randn({x.size(0), of.heads * of.size}, x.options());
  const int before = at::get_num_threads();
  const Result once = run(x, gy, of);
  for (const int threads : {1, 2, 3, 7, before}) {
    at::set_num_threads(threads);
    const Result again = run(x, gy, of);
    EXPECT_TRUE(at::equal(once.y, again.y)) << threads << " threads";
    EXPECT_TRUE(at::equal(once.gqkv, again.gqkv)) << threads << " threads";
  }
}

TEST(CausalAttentionOf, StridedInputsIsThatOfTheirCopies) {
  const Case of{2, 30, 2, 32};
  const at::Tensor x = input(of), gy = at::randn({60, 64});
  const at::Tensor wide = at::cat({x, x}, 1), gy_turned = gy.t().contiguous().t();
  const Result found = run(x, gy, of);
  const at::Tensor view = wide.narrow(1, 192, 192).detach().requires_grad_();
  ASSERT_FALSE(view.is_contiguous() || gy_turned.is_contiguous());
  const at::Tensor y = causal_attention(view, of.counts(), batch_of(of), {});
  y.backward(gy_turned);
  EXPECT_TRUE(at::equal(y, found.y));
  EXPECT_TRUE(at::equal(view.grad(), found.gqkv));
}

}  // namespace
}  // namespace tutti::model
