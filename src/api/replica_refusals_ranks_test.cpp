// What a replica and its groups refuse, and whom they name.
#include <gmock/gmock.h>

#include "api/testing.h"

namespace tutti {
namespace {

using testing::batch;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::loss;
using testing::Net;
using testing::on_ranks;

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

TEST(Replica, RefusesOptionsThatDifferAndNamesThem) {
  const auto errors = errors_of([](const Group& group, int rank) {
    Net net(6);
    Replica replica(net, group, {.zero = rank});
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1 has another module or other options"));
  EXPECT_THAT(errors[1], HasSubstr("\"zero = 1, zero_shard = 0"));
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
                Replica replica(net, group, {.zero = 1, .zero_shard = 3});
              }),
              Each(HasSubstr("zero_shard = 3 does not divide the group's 2 ranks")));
  EXPECT_THAT(errors_of([](const Group& group, int) {
                Net net(6);
                Replica replica(net, group, {.zero_shard = 1});
              }),
              Each(HasSubstr("zero_shard = 1 with zero = 0")));
  EXPECT_THAT(errors_of([](const Group& group, int) {
                Net net(6);
                net.to(at::kHalf);
                Replica replica(net, group);
              }),
              Each(HasSubstr("is of type Half: modules train in Float, Double or BFloat16")));
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

}  // namespace
}  // namespace tutti
