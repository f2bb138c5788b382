// Deaths at awkward moments: while a group is made, before it is made, in the middle of shrink and
// grow; and worlds that grow from one rank or under a forced algorithm.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "comm/card.h"
#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "comm/world.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::check;
using testing::everybody;
using ::testing::HasSubstr;
using testing::Process;
using testing::SharedStore;
using testing::start_processes;
using testing::within;

WireUpOptions unmeasured(double timeout_s = 20) {
  WireUpOptions options;
  options.comm.table = R"({"rows":[]})";
  options.comm.timeout_s = timeout_s;
  return options;
}

void wait_for(SharedStore& store, const char* key, std::int64_t value) {
  const core::Deadline patience = within(30);
  while (store.add(key, 0) < value && !patience.passed()) ::usleep(1000);
  if (patience.passed()) throw core::RunError(fmt::format("nobody set {} to {}", key, value));
}

bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(')');
  return end != std::string::npos && line.substr(end + 2, 1) == "T";
}

/// What fails within `seconds`, and how.
std::string failure(double seconds, const std::function<void()>& what) {
  const core::Stopwatch watch;
  try {
    what();
  } catch (const core::RunError& error) {
    check(watch.elapsed().count() < seconds,
          fmt::format("only after {:.1f} s: {}", watch.elapsed().count(), error.what()));
    return error.what();
  }
  return "accepted";
}

void expect_text(const std::string& text, const std::string& part) {
  check(text.find(part) != std::string::npos, fmt::format("\"{}\" is not in: {}", part, text));
}

void check_sum(Communicator& group, float expected) {
  std::vector<float> x(5000, static_cast<float>(group.rank() + 1));
  group.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "sum").wait();
  check(x[0] == expected && x[4999] == expected, fmt::format("{} is not {}", x[0], expected));
}

/// One rank of the group kills itself, the others go on until they know.
void until_a_death_is_seen(Communicator& group, int victim) {
  try {
    group.barrier("together").wait();
    if (group.rank() == victim) ::raise(SIGKILL);
    for (;;) group.barrier("until it is seen").wait();
  } catch (const core::PeerError&) {
  }
}

Card card_of_this_host(const std::string& address) {
  Card card;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, card.boot_id);
  card.net = std::filesystem::read_symlink("/proc/self/ns/net").string();
  card.address = address;
  card.host = "here";
  return card;
}

// The memory of a new group and the end of its maker come in one look. The end must not be
// forgotten over the memory.
TEST(Death, OfTheMakerOfAGroupBehindItsGiftIsStillNews) {
  SharedStore store;
  auto processes = start_processes(
      store, 2,
      [&store](World& world, int rank) {
        everybody(world).barrier("together").wait();
        if (rank == 0) {
          wait_for(store, "go", 1);
          const Communicator gift = world.group("gift", {0, 1});
          ::raise(SIGKILL);
        }
        store.add("waits", 1);
        const auto text = failure(8, [&] {
          Communicator gift = world.group("gift", {0, 1});
          gift.barrier("with a dead rank").wait();
        });
        expect_text(text, "rank 0 (pid");
      },
      unmeasured());
  wait_for(store, "waits", 1);
  ::usleep(30000);  // it looks for the group by now
  processes[1].signal(SIGSTOP);
  const core::Deadline patience = within(10);
  while (!is_stopped(processes[1].pid()) && !patience.passed()) ::usleep(1000);
  store.add("go", 1);
  EXPECT_EQ(processes[0].result(within(20)), "killed by signal 9");
  processes[1].signal(SIGCONT);
  EXPECT_EQ(processes[1].result(within(40)), "");
}

TEST(Death, KnownBeforeAGroupIsMadeEndsTheMakingAtOnce) {
  SharedStore store;
  auto processes = start_processes(
      store, 3,
      [](World& world, int /*rank*/) {
        Communicator all = everybody(world);
        until_a_death_is_seen(all, 0);
        const auto text = failure(3, [&] { (void)everybody(world); });
        expect_text(text, "rank 0");
        // Without the dead rank neither: the run has ended until it is shrunk.
        expect_text(failure(3, [&] { (void)world.group("rest", {1, 2}); }), "rank 0 (pid");
        world.shrink({1, 2});
        Communicator rest = world.group("rest", {1, 2});
        check_sum(rest, 3);
      },
      unmeasured());
  EXPECT_EQ(processes[0].result(within(20)), "killed by signal 9");
  for (const int r : {1, 2}) EXPECT_EQ(processes[r].result(within(40)), "");
}

TEST(Shrink, CanBeTriedAgainWhenAnotherRankDiesInIt) {
  SharedStore store;
  auto processes = start_processes(
      store, 4,
      [](World& world, int rank) {
        Communicator all = everybody(world);
        until_a_death_is_seen(all, 3);
        if (rank == 1) ::raise(SIGKILL);  // instead of coming
        const auto text = failure(10, [&] { world.shrink({0, 1, 2}); });
        expect_text(text, "rank 1");
        world.shrink({0, 2});
        Communicator rest = world.group("rest", world.members());
        check_sum(rest, 3);
      },
      unmeasured());
  for (const int r : {0, 2}) EXPECT_EQ(processes[r].result(within(60)), "");
}

TEST(Shrink, ToOneRankLeavesAWorldThatCanGrowAgain) {
  SharedStore store;
  auto processes = start_processes(
      store, 2,
      [&store](World& world, int /*rank*/) {
        Communicator all = everybody(world);
        until_a_death_is_seen(all, 1);
        world.shrink({0});
        Communicator alone = world.group("alone", {0});
        check_sum(alone, 1);
        world.grow(store, {1});
        all = everybody(world);
        check_sum(all, 3);
      },
      unmeasured());
  Process joiner([&store] {
    WireUpOptions options = unmeasured();
    options.rank = 1;
    options.ranks = 2;
    options.join = WireUpOptions::Join{{0}, {1}, 1};
    World world = wire_up(&store, options);
    Communicator all = everybody(world);
    check_sum(all, 3);
  });
  EXPECT_EQ(processes[0].result(within(60)), "");
  EXPECT_EQ(joiner.result(within(20)), "");
}

TEST(Grow, TakesAWorldOfOneRankToTwo) {
  SharedStore store;
  std::vector<Process> processes;
  for (const int rank : {0, 1}) {
    processes.emplace_back([&store, rank] {
      WireUpOptions options = unmeasured();
      options.rank = rank;
      options.ranks = rank + 1;
      if (rank == 1) options.join = WireUpOptions::Join{{0}, {1}, 0};
      World world = wire_up(rank == 0 ? nullptr : &store, options);
      if (rank == 0) world.grow(store, {1});
      Communicator all = everybody(world);
      check_sum(all, 3);
      check(all.cost(Collective::AllReduce).bytes_per_s > 0, "its cost has been measured");
    });
  }
  for (Process& process : processes) EXPECT_EQ(process.result(within(60)), "");
}

// When all places are filled again, ranks meet in the world's own block, which has no envelopes.
TEST(Grow, WorksUnderEveryForcedAlgorithm) {
  for (const char* algorithm : {"tree", "ring", "chain", "hierarchical", "staged"}) {
    SharedStore store;
    WireUpOptions options = unmeasured();
    options.comm.algorithm = algorithm;
    auto processes = start_processes(
        store, 4,
        [&store](World& world, int rank) {
          Communicator all = everybody(world);
          try {
            all.barrier("together").wait();
            if (rank == 3) ::raise(SIGKILL);
            for (;;) all.barrier("until it is seen").wait();
          } catch (const core::PeerError&) {
          }
          world.shrink({0, 1, 2});
          world.grow(store, {3});
          all = everybody(world);
          check_sum(all, 10);
        },
        options);
    options.rank = 3;
    options.ranks = 4;
    options.join = WireUpOptions::Join{{0, 1, 2}, {3}, 1};
    Process joiner([&] {
      World world = wire_up(&store, options);
      Communicator all = everybody(world);
      check_sum(all, 10);
    });
    for (const int r : {0, 1, 2}) EXPECT_EQ(processes[r].result(within(60)), "") << algorithm;
    EXPECT_EQ(joiner.result(within(20)), "") << algorithm;
  }
}

TEST(Grow, ThatFailedOverAJoinerLeavesTheMembersAsTheyWere) {
  SharedStore store;
  WireUpOptions options = unmeasured();
  options.wire_up_timeout_s = 1;
  auto processes = start_processes(
      store, 2,
      [&store](World& world, int) {
        Communicator all = everybody(world);
        check_sum(all, 3);
        expect_text(failure(10, [&] { world.grow(store, {2, 3}); }), "rank 3");
        wait_for(store, "gone", 1);
        ::usleep(100000);  // the end of the one that came is no death of a member
        for (int i = 0; i < 50; ++i) check_sum(all, 3);
      },
      options);
  options.rank = 2;
  options.ranks = 4;
  options.join = WireUpOptions::Join{{0, 1}, {2, 3}, 0};
  // Rank 3 shows its card and is not heard of again, so rank 2 gets as far as being connected.
  store.set("tutti//comm/card/1/3", card_of_this_host("nobody").text());
  Process joiner([&] { wire_up(&store, options); });
  EXPECT_THAT(joiner.result(within(20)), HasSubstr("rank 3 did not come"));
  store.add("gone", 1);
  for (Process& process : processes) EXPECT_EQ(process.result(within(40)), "");
}

TEST(Grow, RefusesJoinersThatMakeNoSense) {
  SharedStore store;
  World world = wire_up(nullptr, unmeasured());
  using Ranks = std::vector<int>;
  for (const Ranks& joiners : {Ranks{}, Ranks{0}, Ranks{-1}, Ranks{1, 1}, Ranks{1 << 30}}) {
    EXPECT_THROW(world.grow(store, joiners), std::invalid_argument);
  }
  WireUpOptions options = unmeasured();
  options.ranks = 4;
  options.rank = 3;
  for (const auto& join : {WireUpOptions::Join{{}, {3}, 0}, WireUpOptions::Join{{0, 1}, {2}, 0},
                           WireUpOptions::Join{{0, 7}, {3}, 0}}) {
    options.join = join;
    EXPECT_THROW(wire_up(&store, options), std::invalid_argument);
  }
  options.join.reset();
  options.ranks = 4096;
  EXPECT_THROW(wire_up(&store, options), std::invalid_argument);
}

TEST(SharedMemory, OutlivesTheRankThatMadeItEvenWhenItsPlaceIsTakenAgain) {
  SharedStore store;
  auto processes = start_processes(
      store, 3,
      [&store](World& world, int rank) {
        Communicator all = everybody(world);
        const auto shared = all.allocate_shared(std::size_t{2} << 20, "weights");
        auto* x = reinterpret_cast<float*>(shared.get());
        if (rank == 0) std::fill_n(x, 500000, 7.0F);
        try {
          all.barrier("written").wait();
          if (rank == 0) ::raise(SIGKILL);
          for (;;) all.barrier("until it is seen").wait();
        } catch (const core::PeerError&) {
        }
        world.shrink({1, 2});
        world.grow(store, {0});
        check(x[0] == 7.0F && x[499999] == 7.0F, "it is there");
        all = everybody(world);
        check_sum(all, 6);
      },
      unmeasured());
  Process joiner([&store] {
    WireUpOptions options = unmeasured();
    options.ranks = 3;
    options.join = WireUpOptions::Join{{1, 2}, {0}, 1};
    World world = wire_up(&store, options);
    Communicator all = everybody(world);
    check_sum(all, 6);
  });
  for (const int r : {1, 2}) EXPECT_EQ(processes[r].result(within(60)), "");
  EXPECT_EQ(joiner.result(within(20)), "");
}

TEST(SharedMemory, ThatCannotBeHadIsAnErrorOnEveryRankAlsoWhereStagingIsAllowed) {
  WireUpOptions options = unmeasured();
  options.comm.allow_staging = true;
  const auto errors = testing::run_as_threads(
      3,
      [](World& world, int) {
        Communicator all = everybody(world);
        expect_text(failure(5, [&] { (void)all.allocate_shared(std::size_t{1} << 50, "w"); }),
                    "1125899906842624 bytes");
        check_sum(all, 6);
      },
      options);
  testing::expect_no_errors(errors);
}

}  // namespace
}  // namespace tutti::comm
