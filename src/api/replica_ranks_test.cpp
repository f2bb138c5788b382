// A foreign module on several ranks against the same module on one, which sees every rank's batch.
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <numeric>

#include "api/handles.h"
#include "api/tutti/tutti.h"
#include "comm/testing.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Two linear layers, one of them used twice and known by a second name.
struct Net : torch::nn::Module {
  explicit Net(int width, std::uint64_t seed = 7) {
    in = register_module("in", torch::nn::Linear(3, width));
    out = register_module("out", torch::nn::Linear(width, 2));
    register_parameter("tied", out->weight);
    unused = register_parameter("unused", at::zeros({5}));
    frozen = register_parameter("frozen", at::zeros({2}), /*requires_grad=*/false);
    seen = register_buffer("seen", at::full({1}, static_cast<double>(seed)));
    const at::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(seed);
    for (const at::Tensor& each : trained()) each.detach().normal_(0, 0.5, generator);
  }
  /// Each once.
  [[nodiscard]] std::vector<at::Tensor> trained() const {
    return {in->weight, in->bias, out->weight, out->bias, unused};
  }
  at::Tensor forward(const at::Tensor& x, bool use_unused = false) {
    const at::Tensor y = at::tanh(in(x));
    const at::Tensor z = out(y) + out(y * 0.5);  // a weight with two uses
    return use_unused ? z + unused.sum() : z;
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  at::Tensor unused, frozen, seen;
};

at::Tensor batch(int number) {
  return at::randn({4, 3}, at::detail::createCPUGenerator(100 + static_cast<unsigned>(number)),
                   at::kFloat);
}

at::Tensor loss(const at::Tensor& y) { return y.square().mean(); }

std::vector<std::string> on_ranks(int ranks, const std::function<void(const Group&, int)>& body) {
  return comm::testing::run_as_threads(ranks, [&](comm::World& world, int rank) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    body(Group(std::make_shared<Group::State>(
             Group::State{.group = backend::Group(world.group("dp", all)),
                          .gathers = backend::Group(world.group("dp parameters", all)),
                          .ranks = all})),
         rank);
  });
}

// Plain SGD by hand, so that rounding is all that can differ.
void update(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : parameters) {
    if (each.grad().defined()) each.detach().sub_(each.grad() * 0.1);
  }
}

// What two steps make of Net on one process that sees the micro-batches of all ranks.
std::vector<at::Tensor> expected(int ranks, int micro_batches) {
  Net net(6);
  for (int step = 0; step < 2; ++step) {
    net.zero_grad();
    for (int i = 0; i < ranks * micro_batches; ++i)
      (loss(net.forward(batch(100 * step + i))) / ranks).backward();
    update(net.trained());
  }
  return net.trained();
}

struct Case {
  int ranks, micro_batches, zero;
  bool share_pages, overlap;
};

class ReplicaRanks : public ::testing::TestWithParam<Case> {};

TEST_P(ReplicaRanks, TrainsAsOneProcess) {
  const Case c = GetParam();
  const std::vector<at::Tensor> whole = expected(c.ranks, c.micro_batches);
  const auto errors = on_ranks(c.ranks, [&](const Group& group, int rank) {
    Net net(6, rank == 0 ? 7 : 99);  // rank 0's values are everyone's
    Replica replica(
        net, group,
        {.zero = c.zero, .share_pages = c.share_pages, .overlap = c.overlap, .bucket_bytes = 64});
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
                                           Case{2, 3, 2, false, true}, Case{2, 2, 3, true, true}));

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
  for (const int zero : {0, 1, 2}) {
    EXPECT_THAT(on_ranks(3,
                         [zero](const Group& group, int rank) {
                           Net net(6);
                           Replica replica(net, group, {.zero = zero, .share_pages = false});
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
                           if (zero > 0) same.all_reduce(sum);
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

std::vector<std::string> errors_of(const std::function<void(const Group&, int)>& body) {
  return on_ranks(2, body);
}

TEST(Replica, RefusesModulesThatDifferAndNamesTheParameter) {
  const auto errors = errors_of([](const Group& group, int rank) {
    Net net(6 + rank);
    Replica replica(net, group);
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1 has another module"));
  EXPECT_THAT(errors[1], HasSubstr("\"tied [2, 7] Float\", rank 0 has \"tied [2, 6]"));
}

TEST(Replica, RefusesASecondBackwardAfterTheOneThatCommunicates) {
  const auto errors = errors_of([](const Group& group, int) {
    Net net(6);
    Replica replica(net, group);
    loss(net.forward(batch(0))).backward();
    loss(net.forward(batch(1))).backward();
  });
  EXPECT_THAT(errors, Each(HasSubstr("need no_sync()")));
}

TEST(Replica, RefusesAnUpdateThatWasNotPublished) {
  const auto errors = errors_of([](const Group& group, int) {
    Net net(6);
    Replica replica(net, group, {.zero = 1});
    for (int step = 0; step < 2; ++step) {
      loss(net.forward(batch(0))).backward();
      replica.wait();
    }
  });
  EXPECT_THAT(errors, Each(HasSubstr("call replica.publish()")));
}

TEST(Replica, RefusesPrivateShardsOfAModuleWithoutBlocks) {
  const auto errors = errors_of([](const Group& group, int) {
    Net net(6);
    Replica replica(net, group, {.zero = 3, .share_pages = false});
  });
  EXPECT_THAT(errors, Each(HasSubstr("has no blocks")));
}

TEST(Replica, RefusesStagesAndTypesThatItDoesNotKnow) {
  EXPECT_THAT(errors_of([](const Group& group, int) {
                Net net(6);
                Replica replica(net, group, {.zero = 4});
              }),
              Each(HasSubstr("zero = 4 is no stage")));
  EXPECT_THAT(errors_of([](const Group& group, int) {
                Net net(6);
                net.out->to(at::kDouble);
                Replica replica(net, group);
              }),
              Each(HasSubstr("parameter unused is of type Float, those before it are Double")));
  EXPECT_THAT(errors_of([](const Group& group, int) {
                torch::nn::Module empty;
                Replica replica(empty, group);
              }),
              Each(HasSubstr("nothing to train")));
}

TEST(Replica, RefusesAModuleThatHasOneAlready) {
  const auto errors = errors_of([](const Group& group, int) {
    Net net(6);
    Replica first(net, group);
    Replica second(net, group);
  });
  EXPECT_THAT(errors, Each(HasSubstr("parameter tied has a hook behind its gradient already")));
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

TEST(World, AGroupsNameMeansTheSameRanksAllThrough) {
  const World world = init();
  EXPECT_EQ(world.group("alone", {0}).size(), 1);
  EXPECT_EQ(world.group("alone", {0}).size(), 1);
  try {
    static_cast<void>(world.group("alone", {0, 1}));
    ADD_FAILURE() << "other ranks under the same name";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "the group \"alone\" has ranks [0] and is asked for with [0, 1]: a name means the "
                 "same ranks all through a job. Give the second group a name of its own.");
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
