// A foreign module on several ranks against the same module on one, which sees every rank's batch.
#include <gmock/gmock.h>

#include <map>

#include "api/testing.h"

namespace tutti {
namespace {

using testing::batch;
using ::testing::Each;
using testing::expected;
using testing::loss;
using testing::Net;
using testing::on_ranks;
using testing::update;

struct Case {
  int ranks, micro_batches, zero;
  bool share_pages, overlap;
  int zero_shard = 0;
};

class ReplicaRanks : public ::testing::TestWithParam<Case> {};

TEST_P(ReplicaRanks, TrainsAsOneProcess) {
  const Case c = GetParam();
  const std::vector<at::Tensor> whole = expected(c.ranks, c.micro_batches);
  const auto errors = on_ranks(c.ranks, [&](const Group& group, int rank) {
    Net net(6, rank == 0 ? 7 : 99);  // rank 0's values are everyone's
    Replica replica(net, group,
                    {.zero = c.zero,
                     .zero_shard = c.zero_shard,
                     .share_pages = c.share_pages,
                     .overlap = c.overlap,
                     .bucket_bytes = 64});
    for (int step = 0; step < 2; ++step) {
      for (int micro = 0; micro < c.micro_batches; ++micro) {
        const auto quiet = replica.no_sync(micro + 1 < c.micro_batches);
        loss(net.forward(batch(100 * step + c.micro_batches * rank + micro))).backward();
      }
      replica.wait();
      update(replica.parameters());
      replica.publish();
      net.zero_grad();
    }
    EXPECT_EQ(net.seen.item<double>(), 7);
    if (c.zero == 0) {
      EXPECT_EQ(replica.parameters().size(), net.trained().size());
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(at::allclose(net.trained()[i], whole[i], 1e-5, 1e-6)) << "parameter " << i;
    }
  });
  EXPECT_THAT(errors, Each(""));
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReplicaRanks,
                         ::testing::Values(Case{1, 1, 0, true, true}, Case{1, 2, 2, true, true},
                                           Case{2, 1, 0, true, true}, Case{2, 3, 0, true, true},
                                           Case{3, 2, 0, true, false}, Case{2, 1, 1, true, true},
                                           Case{3, 2, 1, false, true}, Case{2, 1, 2, true, true},
                                           Case{2, 3, 2, false, true}, Case{2, 2, 3, true, true},
                                           Case{4, 2, 1, true, true, 2},
                                           Case{4, 1, 2, false, true, 2},
                                           Case{4, 2, 3, true, false, 2},
                                           Case{3, 2, 1, true, true, 1},
                                           Case{2, 1, 2, true, true, 2}));

// The module in bf16: its values after two steps, and how far the masters are from them.
struct Halves {
  std::vector<at::Tensor> values;
  double rounded_off = 0;
};

Halves train_in_bf16(const ReplicaOptions& options) {
  Halves result;
  EXPECT_THAT(on_ranks(2,
                       [&](const Group& group, int rank) {
                         Net net(6, rank == 0 ? 7 : 99);
                         net.to(at::kBFloat16);
                         Replica replica(net, group, options);
                         for (int step = 0; step < 2; ++step) {
                           for (int micro = 0; micro < 3; ++micro) {
                             const auto quiet = replica.no_sync(micro < 2);
                             const at::Tensor x = batch(100 * step + 3 * rank + micro);
                             loss(net.forward(x.to(at::kBFloat16))).backward();
                           }
                           replica.wait();
                           update(replica.parameters());
                           replica.publish();
                         }
                         if (rank != 0) return;
                         for (const at::Tensor& each : net.trained())
                           result.values.push_back(each.detach().clone());
                         for (const at::Tensor& each : replica.parameters()) {
                           EXPECT_EQ(each.scalar_type(), at::kFloat);
                           const at::Tensor rounded = each.to(at::kBFloat16).to(at::kFloat);
                           result.rounded_off += (each - rounded).abs().sum().item<double>();
                         }
                       }),
              Each(""));
  return result;
}

TEST(Replica, InBf16MastersTrainAtEveryZeroToTheSameBits) {
  const std::vector<at::Tensor> whole = expected(2, 3);
  const Halves first = train_in_bf16({.zero = 0});
  ASSERT_EQ(first.values.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(first.values[i].scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::allclose(first.values[i].to(at::kFloat), whole[i], 2e-2, 1e-2)) << i;
  }
  EXPECT_GT(first.rounded_off, 0);
  for (const ReplicaOptions& options :
       {ReplicaOptions{.zero = 1}, ReplicaOptions{.zero = 1, .share_pages = false},
        ReplicaOptions{.zero = 2}, ReplicaOptions{.zero = 3, .overlap = false}}) {
    const Halves other = train_in_bf16(options);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_TRUE(at::equal(other.values[i], first.values[i])) << i << " at zero " << options.zero;
  }
}

TEST(Replica, AParameterThatOneRankAloneUsesGetsTheAverage) {
  EXPECT_THAT(on_ranks(2,
                       [](const Group& group, int rank) {
                         Net net(6);
                         Replica replica(net, group);
                         for (int step = 0; step < 2; ++step) {
                           net.zero_grad();
                           net.forward(batch(0), rank == 1).sum().backward();
                           replica.wait();
                           // d sum / d unused = 4 x 2 on rank 1, none on rank 0
                           EXPECT_TRUE(at::equal(net.unused.grad(), at::full({5}, 4.0)));
                         }
                       }),
              Each(""));
}

TEST(Replica, WaitWithoutABackwardBringsZeros) {
  EXPECT_THAT(on_ranks(2,
                       [](const Group& group, int rank) {
                         Net net(6);
                         Replica replica(net, group);
                         if (rank == 0) net.forward(batch(0), true).sum().backward();
                         replica.wait();
                         EXPECT_TRUE(at::equal(net.unused.grad(), at::full({5}, 4.0)));
                       }),
              Each(""));
}

TEST(Replica, TheNormIsOneAtEveryZeroAndClippingObeysIt) {
  for (const auto& [zero, zero_shard] :
       {std::pair(0, 0), std::pair(1, 0), std::pair(2, 0), std::pair(1, 1)}) {
    EXPECT_THAT(on_ranks(3,
                         [zero = zero, zero_shard = zero_shard](const Group& group, int rank) {
                           Net net(6);
                           Replica replica(
                               net, group,
                               {.zero = zero, .zero_shard = zero_shard, .share_pages = false});
                           loss(net.forward(batch(rank))).backward();
                           replica.wait();
                           const double norm = replica.grad_norm();
                           Net whole(6);
                           for (int i = 0; i < 3; ++i)
                             (loss(whole.forward(batch(i))) / 3).backward();
                           double squares = 0;
                           for (const at::Tensor& each : whole.trained()) {
                             if (each.grad().defined())
                               squares += each.grad().square().sum().item<double>();
                           }
                           EXPECT_NEAR(norm, std::sqrt(squares), 1e-5);
                           EXPECT_EQ(replica.clip_grad_norm(norm / 2), norm);
                           double after = 0;
                           for (const at::Tensor& each : replica.parameters()) {
                             after += each.grad().square().sum().item<double>();
                           }
                           const at::Tensor sum = at::tensor({after}, at::kDouble);
                           Group same = group;
                           if (zero > 0 && zero_shard == 0) same.all_reduce(sum);
                           EXPECT_NEAR(std::sqrt(sum.item<double>()), norm / 2, 1e-5);
                         }),
                Each(""));
  }
}

TEST(Replica, BlocksOfPrivateShardsTrainAsWholeOnes) {
  const auto make = [] {
    torch::nn::Sequential blocks({{"first", torch::nn::Linear(3, 8)},
                                  {"second", torch::nn::Linear(8, 5)},
                                  {"third", torch::nn::Linear(5, 7)},
                                  {"last", torch::nn::Linear(7, 2)}});
    const at::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(3);
    for (at::Tensor& each : blocks->parameters()) each.normal_(0, 0.5, generator);
    return blocks;
  };
  std::vector<at::Tensor> whole;
  {
    auto blocks = make();
    for (int step = 0; step < 2; ++step) {
      blocks->zero_grad();
      for (int i = 0; i < 4; ++i) (loss(blocks->forward(batch(10 * step + i))) / 2).backward();
      update(blocks->parameters());
    }
    whole = {blocks->forward(batch(50)).detach()};
  }
  const auto errors = on_ranks(2, [&](const Group& group, int rank) {
    auto blocks = make();
    Replica replica(blocks, group, {.zero = 3, .share_pages = false});
    for (int step = 0; step < 2; ++step) {
      for (int micro = 0; micro < 2; ++micro) {
        const auto quiet = replica.no_sync(micro == 0);
        loss(replica.forward(batch(10 * step + 2 * rank + micro))).backward();
      }
      replica.wait();
      update(replica.parameters());
      replica.publish();
    }
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::allclose(replica.forward(batch(50)), whole[0], 1e-5, 1e-6));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Replica, PiecesOfAllRanksAreTheModulesParameters) {
  for (const int zero : {0, 1, 2, 3}) {
    std::vector<std::map<std::string, std::int64_t>> elements(2);
    EXPECT_THAT(
        on_ranks(2,
                 [&](const Group& group, int rank) {
                   Net net(6);
                   Replica replica(net, group, {.zero = zero});
                   ASSERT_EQ(replica.pieces().size(), replica.parameters().size());
                   for (std::size_t i = 0; i < replica.pieces().size(); ++i) {
                     const Piece& piece = replica.pieces()[i];
                     EXPECT_TRUE(piece.values.is_same(replica.parameters()[i]));
                     elements[rank][piece.name] += piece.values.numel();
                     if (piece.name != "tied") continue;
                     EXPECT_EQ(piece.shape, (std::vector<std::int64_t>{2, 6}));
                     const at::Tensor whole = net.out->weight.detach().view({-1});
                     const at::Tensor part = piece.values.detach().view({-1});
                     EXPECT_TRUE(at::equal(whole.narrow(0, piece.first, part.numel()), part));
                   }
                   Group same = group;
                   same.barrier();  // pages are shared
                 }),
        Each(""));
    const std::map<std::string, std::int64_t> all = {
        {"tied", 12}, {"unused", 5}, {"in.weight", 18}, {"in.bias", 6}, {"out.bias", 2}};
    for (const auto& [name, count] : all) {
      const std::int64_t held = elements[0][name] + elements[1][name];
      EXPECT_EQ(held, zero == 0 ? 2 * count : count) << name << " at zero = " << zero;
    }
  }
}

TEST(Replica, LeavesAWorkingModuleBehind) {
  EXPECT_THAT(on_ranks(2,
                       [](const Group& group, int) {
                         Net net(6);
                         const at::Tensor before = net.forward(batch(0)).detach();
                         { Replica replica(net, group, {.zero = 2}); }
                         loss(net.forward(batch(0))).backward();
                         EXPECT_TRUE(at::allclose(net.forward(batch(0)), before));
                         EXPECT_TRUE(net.in->weight.grad().defined());
                         Group same = group;
                         same.barrier();  // pages are shared
                       }),
              Each(""));
}

}  // namespace
}  // namespace tutti
