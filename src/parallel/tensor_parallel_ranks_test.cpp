// Split layers on several ranks against the same layers on one, in fp64, with numbers of rows and
// words that no number of ranks divides.
#include <gmock/gmock.h>

#include "comm/testing.h"
#include "parallel/functions.h"
#include "parallel/tensor_parallel.h"
#include "parallel/testing.h"
#include "parallel/vocabulary.h"

namespace tutti::parallel {
namespace {

using parallel::testing::expect_close;
using parallel::testing::Slots;

struct Split {
  int ranks;
  bool sequence;
};

class TensorParallelRanks : public ::testing::TestWithParam<Split> {
 protected:
  // Every rank draws the same values.
  template <class F>
  void on_ranks(const F& body) const {
    const auto errors =
        comm::testing::run_as_threads(GetParam().ranks, [&](comm::World& world, int) {
          std::vector<int> all(static_cast<std::size_t>(GetParam().ranks));
          std::iota(all.begin(), all.end(), 0);
          TensorParallel tp(backend::Group(world.group("tp", all)),
                            {.sequence = GetParam().sequence}, nullptr);
          body(tp);
        });
    EXPECT_THAT(errors, ::testing::Each(""));
  }
};

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kDouble);
}

at::Tensor part(const at::Tensor& whole, int dim, mesh::FlatSlice slice) {
  return whole.narrow(dim, slice.first, slice.count).contiguous();
}

TEST_P(TensorParallelRanks, LeaveAddsUpAndEnterGathers) {
  on_ranks([](TensorParallel& tp) {
    const at::Tensor x = drawn({5, 3}, 1);
    const at::Tensor mine = tp.leave(x * (tp.rank() + 1.0));
    const double sum = tp.size() * (tp.size() + 1) / 2.0;
    expect_close(mine, part(x, 0, tp.rows(5)) * sum);
    expect_close(tp.enter(mine, 5), x * sum);
  });
}

TEST_P(TensorParallelRanks, BytesAreThoseOfARing) {
  on_ranks([](TensorParallel& tp) {
    constexpr std::int64_t kWhole = 12 * 4 * 8;  // divisible by 2, 3, 4
    const std::int64_t once = kWhole * (tp.size() - 1) / tp.size();
    const at::Tensor mine = tp.leave(drawn({12, 4}, 1));
    EXPECT_EQ(tp.take_sent_bytes(), tp.splits_rows() ? once : 2 * once);
    std::ignore = tp.enter(mine, 12);
    EXPECT_EQ(tp.take_sent_bytes(), tp.splits_rows() ? once : 0);
  });
}

TEST_P(TensorParallelRanks, AColumnProductAndARowProductAreTheWholeLayers) {
  const at::Tensor x = drawn({5, 4}, 1), norm_w = drawn({4}, 2), norm_b = drawn({4}, 3),
                   w1 = drawn({7, 4}, 4), b1 = drawn({7}, 5), w2 = drawn({4, 7}, 6),
                   b2 = drawn({4}, 7), gy = drawn({5, 4}, 8);
  const auto layers = [&](Slots& slots, const at::Tensor& rows, TensorParallel* tp) {
    const auto own = [&](const at::Tensor& whole, int dim) {
      return tp == nullptr ? whole : part(whole, dim, tp->share(7));
    };
    static thread_local std::vector<Weight> w;  // outlive the graph
    w = {slots.weight(0, norm_w),
         slots.weight(1, norm_b),
         slots.weight(2, own(w1, 0)),
         slots.weight(3, own(b1, 0)),
         slots.weight(4, own(w2, 1)),
         slots.weight(5, b2),
         Weight()};
    const at::Tensor h = linear_of_norm(rows, w[0], w[1], w[2], w[6], Keep::Input, tp, 5);
    return linear_of_gelu(h, w[3], w[4], w[5], rows, Keep::Input, tp);
  };
  Slots whole;
  const at::Tensor whole_x = x.clone().requires_grad_();
  const at::Tensor y = layers(whole, whole_x, nullptr);
  y.backward(gy);
  on_ranks([&](TensorParallel& tp) {
    const mesh::FlatSlice rows = tp.rows(5), columns = tp.share(7);
    Slots slots;
    const at::Tensor own_x = part(x, 0, rows).requires_grad_();
    const at::Tensor own_y = layers(slots, own_x, &tp);
    expect_close(own_y, part(y.detach(), 0, rows));
    own_y.backward(part(gy, 0, rows));
    expect_close(own_x.grad(), part(whole_x.grad(), 0, rows));
    expect_close(slots.slot(2), part(whole.slot(2), 0, columns));
    expect_close(slots.slot(3), part(whole.slot(3), 0, columns));
    expect_close(slots.slot(4), part(whole.slot(4), 1, columns));
    for (const int replicated : {0, 1, 5}) {
      const at::Tensor sum = slots.slot(replicated).clone();
      if (tp.splits_rows()) tp.reduce(sum, backend::ReduceOp::Sum, "partial gradients");
      expect_close(sum, whole.slot(replicated));
    }
  });
}

TEST_P(TensorParallelRanks, AVocabularyThatNoNumberDividesGivesTheWholeLossAndGradients) {
  const at::Tensor wte = drawn({11, 4}, 1), wpe = drawn({5, 4}, 2);
  const at::Tensor tokens = at::tensor({0, 10, 3, 3, 7}, at::kLong),
                   targets = at::tensor({10, -1, 3, 7, 0}, at::kLong);
  const auto model = [&](Slots& slots, TensorParallel* tp) {
    static thread_local std::vector<Weight> w;  // outlive the graph
    w = {slots.weight(0, tp == nullptr ? wte : part(wte, 0, tp->share(11))), slots.weight(1, wpe)};
    const Vocabulary vocabulary{.words = 11, .tp = tp};
    const at::Tensor x = embedding(tokens, 5, w[0], w[1], vocabulary);
    const at::Tensor loss = head_loss(x, targets, w[0], 0.25, vocabulary);
    loss.backward();
    return loss.item<double>();
  };
  Slots whole;
  const double loss = model(whole, nullptr);
  on_ranks([&](TensorParallel& tp) {
    Slots slots;
    EXPECT_NEAR(model(slots, &tp), loss, 1e-12);
    expect_close(slots.slot(0), part(whole.slot(0), 0, tp.share(11)));
    const at::Tensor positions = slots.slot(1).clone();
    if (tp.splits_rows()) tp.reduce(positions, backend::ReduceOp::Sum, "partial gradients");
    expect_close(positions, whole.slot(1));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelRanks,
                         ::testing::Values(Split{1, true}, Split{2, true}, Split{2, false},
                                           Split{3, true}, Split{4, false}, Split{4, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) +
                                  (info.param.sequence ? "_sequence" : "_replicated");
                         });

}  // namespace
}  // namespace tutti::parallel
