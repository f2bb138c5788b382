// Collectives over threads as ranks, against an oracle that knows nothing of slices or chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "comm/communicator.h"
#include "comm/testing.h"
#include "comm/testing_block.h"
#include "comm/testing_expect.h"
#include "comm/testing_oracle.h"

namespace tutti::comm {
namespace {

using testing::all_values;
using testing::Block;
using testing::Bytes;
using testing::difference;
using testing::everybody;
using testing::examples;
using testing::expect_no_errors;
using testing::kAllTypes;
using testing::kMemories;
using testing::Memory;
using testing::reduced;
using testing::uneven_counts;
using testing::values;

// None, one, fewer than ranks, odd, one-shot, direct with slices of lines and of pages, many
// chunks.
constexpr std::size_t kSizes[] = {0, 1, 7, 1001, 5000, 60001};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class Collectives : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4, 5, 8, 16));

TEST_P(Collectives, AllReduceGivesEveryRankTheBitsOfRankOrder) {
  const auto cases = examples(GetParam(), kAllTypes, kSizes, testing::every_reduction);
  expect_no_errors(testing::run_as_threads(GetParam(), [&](World& world, int rank) {
    Communicator group = everybody(world);
    for (const auto& [dtype, count, inputs, results] : cases) {
      for (const auto& [op, expected] : results) {
        for (const Memory memory : kMemories) {
          Block io(group, memory, inputs[rank], dtype);
          group.all_reduce(io.buffer(), op, "case").wait();
          ASSERT_EQ(difference(io.content(), expected, dtype), "")
              << name(op.op) << " of " << count << " " << name(dtype) << ", memory "
              << static_cast<int>(memory);
        }
      }
    }
  }));
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsShareInPlaceAndApart) {
  const auto cases = examples(GetParam(), kAllTypes, kSizes, testing::plain_sum);
  expect_no_errors(testing::run_as_threads(GetParam(), [&](World& world, int rank) {
    Communicator group = everybody(world);
    for (const auto& [dtype, count, inputs, results] : cases) {
      const Bytes& whole = results[0].bytes;
      const auto counts = uneven_counts(world.size(), count);
      const std::size_t size = element_bytes(dtype);
      const auto begin =
          static_cast<std::size_t>(std::accumulate(counts.begin(), counts.begin() + rank, 0L));
      const auto share = static_cast<std::size_t>(counts[rank]);
      const Bytes expected(whole.begin() + begin * size, whole.begin() + (begin + share) * size);
      for (const Memory memory : kMemories) {
        Block in(group, memory, inputs[rank], dtype);
        Block out(group, memory, Bytes(share * size), dtype);
        group.reduce_scatter(out.buffer(), in.buffer(), counts, ReduceOp::Sum, "apart").wait();
        ASSERT_EQ(out.content() == expected, true) << count << " " << name(dtype);
        Block io(group, memory, inputs[rank], dtype);
        const Buffer part = {io.data() + begin * size, share, dtype};
        group.reduce_scatter(part, io.buffer(), counts, ReduceOp::Sum, "in place").wait();
        const Bytes content = io.content();
        ASSERT_EQ(std::equal(expected.begin(), expected.end(), content.begin() + begin * size),
                  true);
      }
    }
  }));
}

TEST_P(Collectives, AllGatherLaysUnevenPartsInRankOrder) {
  expect_no_errors(testing::run_as_threads(GetParam(), [](World& world, int rank) {
    Communicator group = everybody(world);
    for (const DType dtype : {DType::Float32, DType::BFloat16}) {
      const std::size_t size = element_bytes(dtype);
      for (const std::size_t count : kSizes) {
        const auto counts = uneven_counts(world.size(), count);
        Bytes expected;
        std::size_t begin = 0;
        for (int r = 0; r < world.size(); ++r) {
          if (r == rank) begin = expected.size() / size;
          const Bytes part = values(dtype, r, static_cast<std::size_t>(counts[r]));
          expected.insert(expected.end(), part.begin(), part.end());
        }
        const Bytes mine = values(dtype, rank, static_cast<std::size_t>(counts[rank]));
        for (const Memory memory : kMemories) {
          Block in(group, memory, mine, dtype);
          Block out(group, memory, Bytes(count * size), dtype);
          group.all_gather(out.buffer(), in.buffer(), counts, "apart").wait();
          ASSERT_EQ(out.content() == expected, true) << count << " " << name(dtype);
          Bytes placed(count * size);
          std::copy(mine.begin(), mine.end(), placed.begin() + begin * size);
          Block io(group, memory, placed, dtype);
          const ConstBuffer part = {io.data() + begin * size, mine.size() / size, dtype};
          group.all_gather(io.buffer(), part, counts, "in place").wait();
          ASSERT_EQ(io.content() == expected, true) << count << " " << name(dtype);
        }
      }
    }
  }));
}

TEST_P(Collectives, BroadcastGivesEveryRankTheRootsBytes) {
  expect_no_errors(testing::run_as_threads(GetParam(), [](World& world, int rank) {
    Communicator group = everybody(world);
    for (int root = 0; root < world.size(); ++root) {
      for (const std::size_t count : kSizes) {
        for (const Memory memory : kMemories) {
          Block io(group, memory, values(DType::Int32, rank, count), DType::Int32);
          group.broadcast(io.buffer(), root, "case").wait();
          ASSERT_EQ(io.content() == values(DType::Int32, root, count), true) << count;
        }
      }
    }
  }));
}

TEST_P(Collectives, StatisticsDependNeitherOnRanksNorOnMemory) {
  // Blocks of odd lengths over more than one chunk; one block gets an infinity from the last rank.
  constexpr std::size_t kCount = 60001;
  std::vector<std::int64_t> starts;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(kCount); at += 1 + at % 7777) {
    starts.push_back(at);
  }
  expect_no_errors(testing::run_as_threads(GetParam(), [&](World& world, int rank) {
    Communicator group = everybody(world);
    auto inputs = all_values(DType::Float32, world.size(), kCount);
    const std::size_t bad_block = starts.size() / 2;
    const float infinity = std::numeric_limits<float>::infinity();
    std::memcpy(&inputs.back()[static_cast<std::size_t>(starts[bad_block]) * 4], &infinity, 4);
    const Bytes expected = reduced(inputs, DType::Float32, ReduceOp::Avg);
    for (const Memory memory : kMemories) {
      Block io(group, memory, inputs[rank], DType::Float32);
      ReduceStats stats;
      stats.block_starts = starts;
      group.all_reduce(io.buffer(), ReduceOp::Avg, "stats", &stats).wait();
      ASSERT_EQ(io.content() == expected, true);
      ASSERT_EQ(stats.squares.size(), stats.not_finite.size());
      std::vector<double> owned(starts.size(), -1);
      for (std::size_t i = 0; i < stats.squares.size(); ++i) {
        const std::size_t b = static_cast<std::size_t>(stats.first_block) + i;
        const std::size_t end =
            b + 1 < starts.size() ? static_cast<std::size_t>(starts[b + 1]) : kCount;
        double lanes[8] = {};
        for (std::size_t e = static_cast<std::size_t>(starts[b]); e < end; ++e) {
          float x = 0;
          std::memcpy(&x, &expected[e * 4], 4);
          lanes[(e - static_cast<std::size_t>(starts[b])) % 8] += static_cast<double>(x) * x;
        }
        const double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        ASSERT_EQ(stats.squares[i], sum) << "block " << b;
        const std::uint64_t culprit = b == bad_block ? std::uint64_t{1} << (world.size() - 1) : 0;
        ASSERT_EQ(stats.not_finite[i], culprit) << "block " << b;
      }
      // Each block was reduced by exactly one rank.
      std::int64_t blocks = static_cast<std::int64_t>(stats.squares.size());
      group.all_reduce({&blocks, 1, DType::Int64}, ReduceOp::Sum, "blocks").wait();
      ASSERT_EQ(blocks, static_cast<std::int64_t>(starts.size()));
    }
  }));
}

TEST(Groups, InFlightInDifferentOrdersOnDifferentRanksDoNotDeadlock) {
  expect_no_errors(testing::run_as_threads(4, [](World& world, int rank) {
    Communicator a = world.group("a", {0, 1, 2, 3}), b = world.group("b", {0, 1, 2, 3});
    for (int round = 0; round < 50; ++round) {
      std::vector<float> x(3000, 1.0F), y(3000, 2.0F);
      Pending first, second;
      if ((rank + round) % 2 == 0) {
        first = a.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "x");
        second = b.all_reduce({y.data(), y.size()}, ReduceOp::Sum, "y");
        second.wait();
        first.wait();
      } else {
        second = b.all_reduce({y.data(), y.size()}, ReduceOp::Sum, "y");
        first = a.all_reduce({x.data(), x.size()}, ReduceOp::Sum, "x");
        while (!second.done()) std::this_thread::yield();
        first.wait();
      }
      ASSERT_EQ(x.back(), 4.0F);
      ASSERT_EQ(y.front(), 8.0F);
    }
  }));
}

TEST(Groups, ThirtyTwoOnEightRanksAreThereWithinASecond) {
  expect_no_errors(testing::run_as_threads(8, [](World& world, int) {
    const core::Stopwatch watch;
    std::vector<Communicator> groups;
    for (int i = 0; i < 32; ++i) groups.push_back(everybody(world));
    groups.back().barrier("all made").wait();
    EXPECT_LT(watch.elapsed().count(), kSanitized ? 10.0 : 1.0);
  }));
}

TEST(SendRecv, KeepsTheOrderPerPairAndTagAndBuffersWhileCreditsLast) {
  expect_no_errors(testing::run_as_threads(3, [](World& world, int rank) {
    Communicator group = everybody(world);
    const int to = (rank + 1) % 3, from = (rank + 2) % 3;
    std::vector<Pending> sends;
    for (int i = 0; i < 40; ++i) {  // more than the credits of a pair: the last ones wait
      const std::int32_t value = 100 * rank + i;
      // The value dies at once, so for the first 16 the send must have copied it.
      if (i < 16) {
        group.send({&value, 1, DType::Int32}, to, i % 2, "eager").wait();
      } else {
        static thread_local std::int32_t kept[40];
        kept[i] = value;
        sends.push_back(group.send({&kept[i], 1, DType::Int32}, to, i % 2, "queued"));
      }
    }
    std::vector<std::int32_t> got;
    for (int i = 0; i < 40; ++i) {
      std::int32_t value = -1;
      group.recv({&value, 1, DType::Int32}, from, i % 2, "value").wait();
      got.push_back(value);
    }
    for (Pending& send : sends) send.wait();
    for (int i = 0; i < 40; ++i) ASSERT_EQ(got[i], 100 * from + i);
  }));
}

TEST(SendRecv, TagsOvertakeEachOther) {
  expect_no_errors(testing::run_as_threads(2, [](World& world, int rank) {
    Communicator group = everybody(world);
    std::vector<double> a(100000, 1.5), b(3, 2.5), c(0);
    if (rank == 0) {
      group.send({a.data(), a.size(), DType::Float64}, 1, 7, "a").wait();
      group.send({b.data(), b.size(), DType::Float64}, 1, 8, "b").wait();
      group.send({c.data(), c.size(), DType::Float64}, 1, 8, "c").wait();
    } else {
      std::vector<double> x(100000), y(3);
      group.recv({y.data(), y.size(), DType::Float64}, 0, 8, "b").wait();
      group.recv({c.data(), 0, DType::Float64}, 0, 8, "c").wait();
      group.recv({x.data(), x.size(), DType::Float64}, 0, 7, "a").wait();
      EXPECT_EQ(x, a);
      EXPECT_EQ(y, b);
    }
  }));
}

TEST(RandomPrograms, GiveTheOraclesResults) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 4);
    SCOPED_TRACE(seed);
    expect_no_errors(testing::run_as_threads(ranks, [seed](World& world, int rank) {
      std::mt19937 plan(seed);        // the same program on every rank
      std::mt19937 timing(rank + 1);  // what is waited for when is each rank's own affair
      std::vector<Communicator> groups = {everybody(world), everybody(world)};
      if (world.size() > 2 && rank < 2) groups.push_back(world.group("pair", {0, 1}));
      struct Open {
        Block block;
        Pending pending;
        Bytes expected;
      };
      std::vector<std::unique_ptr<Open>> open;
      for (int i = 0; i < 60; ++i) {
        const std::size_t which = plan() % 3;
        const DType dtype = kAllTypes[plan() % std::size(kAllTypes)];
        const ReduceOp op = plan() % 2 == 0 ? ReduceOp::Sum : ReduceOp::Max;
        const std::size_t count = plan() % 4 == 0 ? plan() % 30000 : plan() % 300;
        const Memory memory = kMemories[plan() % 3];
        const int kind = static_cast<int>(plan() % 3);
        if (which >= groups.size()) continue;
        Communicator& group = groups[which];
        std::vector<Bytes> inputs;
        for (int r = 0; r < group.size(); ++r) inputs.push_back(values(dtype, r, count, i));
        open.push_back(std::make_unique<Open>(Open{{group, memory, inputs[rank], dtype}, {}, {}}));
        Open& o = *open.back();
        const int root = static_cast<int>(count) % group.size();
        o.expected = kind == 2 ? inputs[root] : reduced(inputs, dtype, op);
        o.pending = kind == 2 ? group.broadcast(o.block.buffer(), root, "random")
                              : group.all_reduce(o.block.buffer(), op, "random");
        if (kind == 1) group.barrier("random").wait();
        if (timing() % 3 == 0) open[timing() % open.size()]->pending.wait();
        if (timing() % 3 == 0) groups[0].progress();
      }
      for (auto& o : open) {
        o->pending.wait();
        ASSERT_EQ(o->block.content() == o->expected, true);
      }
    }));
  }
}

TEST(Cost, IsMeasuredAndEqualOnEveryRank) {
  std::vector<double> latencies(4), rates(4);
  expect_no_errors(testing::run_as_threads(4, [&](World& world, int rank) {
    const Cost cost = everybody(world).cost(Collective::AllReduce);
    latencies[rank] = cost.latency_s;
    rates[rank] = cost.bytes_per_s;
  }));
  EXPECT_GT(latencies[0], 0);
  EXPECT_GT(rates[0], 0);
  EXPECT_EQ(latencies, std::vector<double>(4, latencies[0]));
  EXPECT_EQ(rates, std::vector<double>(4, rates[0]));
}

TEST(Arena, GrowthIsKnownToPeersWhenItIsUsed) {
  WireUpOptions options;
  options.arena_bytes = 1 << 16;
  expect_no_errors(testing::run_as_threads(
      3,
      [](World& world, int rank) {
        Communicator group = everybody(world);
        std::vector<std::shared_ptr<std::byte>> kept;
        for (int i = 0; i < 4; ++i) {  // each needs a segment of its own, at another size per rank
          const std::size_t bytes = (std::size_t{1} << 20) * (i + 1 + rank);
          kept.push_back(group.allocate(bytes));
          auto* x = reinterpret_cast<float*>(kept.back().get());
          std::fill_n(x, 200000, static_cast<float>(rank + i));
          group.all_reduce({x, 200000}, ReduceOp::Sum, "grown").wait();
          ASSERT_EQ(x[199999], static_cast<float>(3 + 3 * i));
        }
      },
      options));
}

}  // namespace
}  // namespace tutti::comm
