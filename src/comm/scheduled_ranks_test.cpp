// Rooted collectives, exchanges, and every schedule run by the engine, against an oracle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <span>
#include <thread>

#include "comm/communicator.h"
#include "comm/testing.h"
#include "comm/testing_block.h"
#include "comm/testing_expect.h"

namespace tutti::comm {
namespace {

using testing::all_values;
using testing::begins;
using testing::Block;
using testing::Bytes;
using testing::cut;
using testing::difference;
using testing::everybody;
using testing::examples;
using testing::expect_no_errors;
using testing::kMemories;
using testing::Memory;
using testing::uneven_counts;
using testing::values;

constexpr std::size_t kSizes[] = {0, 1, 7, 1001, 70001};

WireUpOptions forced(const char* algorithm) {
  WireUpOptions options;
  options.comm.algorithm = algorithm;
  return options;
}

class Rooted : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Rooted, ::testing::Values(1, 2, 3, 5, 8, 16));

TEST_P(Rooted, ReduceGivesTheRootTheBitsOfRankOrder) {
  constexpr DType kTypes[] = {DType::Float32, DType::BFloat16, DType::Float16, DType::Int8};
  const auto cases = examples(GetParam(), kTypes, kSizes, testing::every_reduction);
  expect_no_errors(testing::run_as_threads(GetParam(), [&](World& world, int rank) {
    Communicator group = everybody(world);
    for (const auto& [dtype, count, inputs, results] : cases) {
      const int root = static_cast<int>(count) % world.size();
      for (const auto& [op, expected] : results) {
        for (const Memory memory : kMemories) {
          Block io(group, memory, inputs[rank], dtype);
          group.reduce(io.buffer(), op, root, "case").wait();
          if (rank != root) continue;
          ASSERT_EQ(difference(io.content(), expected, dtype), "")
              << name(op.op) << " of " << count << " " << name(dtype);
        }
      }
    }
  }));
}

TEST_P(Rooted, ScatterAndGatherMoveUnevenPartsApartAndInPlace) {
  for (const char* algorithm : {"direct", "tree"}) {
    expect_no_errors(testing::run_as_threads(
        GetParam(),
        [](World& world, int rank) {
          Communicator group = everybody(world);
          const DType dtype = DType::Int16;
          for (const std::size_t count : kSizes) {
            const auto counts = uneven_counts(world.size(), count);
            const auto at = begins(counts);
            const Bytes whole = values(dtype, 99, count);
            const Bytes mine = cut(whole, dtype, at[rank], at[rank + 1]);
            for (const int root : {0, world.size() - 1}) {
              for (const Memory memory : kMemories) {
                const bool is_root = rank == root;
                Block all(group, memory, is_root ? whole : Bytes(), dtype);
                Block part(group, memory, Bytes(mine.size()), dtype);
                group.scatter(part.buffer(), all.buffer(), counts, root, "scatter").wait();
                ASSERT_EQ(part.content() == mine, true) << count;
                if (is_root) {  // its own part where it lies
                  const Buffer place = {all.data() + at[rank] * 2, mine.size() / 2, dtype};
                  group.scatter(place, all.buffer(), counts, root, "in place").wait();
                } else {
                  group.scatter(part.buffer(), {}, counts, root, "in place").wait();
                }
                Block back(group, memory, Bytes(is_root ? whole.size() : 0), dtype);
                group.gather(back.buffer(), part.buffer(), counts, root, "gather").wait();
                ASSERT_TRUE(!is_root || back.content() == whole) << count;
              }
            }
          }
        },
        forced(algorithm)));
  }
}

// Element i of what rank q sends to rank r tells all three.
std::int32_t message(int from, int to, std::size_t i) {
  return from * 10'000'000 + to * 100'000 + static_cast<std::int32_t>(i % 100'000);
}

TEST_P(Rooted, AllToAllExchangesEvenAndUnevenParts) {
  for (const char* algorithm : {"direct", "ring"}) {
    expect_no_errors(testing::run_as_threads(
        GetParam(),
        [](World& world, int rank) {
          Communicator group = everybody(world);
          const int ranks = world.size();
          for (const std::size_t unit : {std::size_t{0}, std::size_t{3}, std::size_t{9000}}) {
            for (const bool even : {true, false}) {
              // Uneven: (from + 2 to) mod 3 units, so some send nothing to some.
              const auto count = [&](int from, int to) {
                return static_cast<std::int64_t>(unit) * (even ? 1 : (from + 2 * to) % 3);
              };
              std::vector<std::int64_t> send(ranks), recv(ranks);
              std::vector<std::int32_t> in, expected;
              for (int r = 0; r < ranks; ++r) {
                send[r] = count(rank, r);
                recv[r] = count(r, rank);
                for (std::int64_t i = 0; i < send[r]; ++i) in.push_back(message(rank, r, i));
                for (std::int64_t i = 0; i < recv[r]; ++i) expected.push_back(message(r, rank, i));
              }
              const auto bytes = [](const std::vector<std::int32_t>& v) {
                const auto* p = reinterpret_cast<const std::byte*>(v.data());
                return Bytes(p, p + v.size() * 4);
              };
              for (const Memory memory : kMemories) {
                Block from(group, memory, bytes(in), DType::Int32);
                Block to(group, memory, Bytes(expected.size() * 4), DType::Int32);
                group.all_to_all(to.buffer(), from.buffer(), send, recv, "case").wait();
                ASSERT_EQ(to.content() == bytes(expected), true) << unit << " " << even;
              }
            }
          }
        },
        forced(algorithm)));
  }
}

TEST(AllToAll, NamesBothSidesWhenTheyDisagreeOnASize) {
  const auto errors = testing::run_as_threads(2, [](World& world, int rank) {
    std::vector<float> in(8), out(8);
    const std::vector<std::int64_t> mine = {4, 4}, other = {5, 3};
    everybody(world)
        .all_to_all({out.data(), 8}, {in.data(), 8, DType::Float32}, mine, rank == 0 ? mine : other,
                    "x")
        .wait();
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, ::testing::HasSubstr("rank 1 expects 5 elements of rank 0"));
    EXPECT_THAT(error, ::testing::HasSubstr("rank 0 sends 4"));
  }
}

struct Case {
  const char* algorithm;
  int ranks;
};
class Algorithms : public ::testing::TestWithParam<Case> {};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const schedule::Algorithm algorithm : schedule::all_algorithms()) {
    for (const int ranks : {2, 3, 4, 6, 8, 16}) {
      cases.push_back({schedule::name(algorithm).data(), ranks});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, Algorithms, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string text = info.param.algorithm + std::to_string(info.param.ranks);
  std::erase(text, '-');
  return text;
});

// Where the order of additions is the algorithm's own, integers still add up exactly; half types
// are rounded once, so they stay within half a place of the sum in double.
TEST_P(Algorithms, ReduceRightlyInArenasAndOutside) {
  const auto [algorithm, ranks] = GetParam();
  constexpr DType kTypes[] = {DType::Int32, DType::Float32, DType::BFloat16, DType::Float16};
  constexpr std::size_t kTiny[] = {0, 1, 6};  // an inline operation has 24 bytes
  const bool tiny = std::string_view(algorithm) == "inline";
  const bool rank_order = std::string_view("inline one-shot direct staged chain").find(algorithm) !=
                          std::string_view::npos;
  const auto exact = [&](DType dtype, Reduce op) {  // for the others see the next test
    return rank_order || !floating(dtype) || op.op == ReduceOp::Max || op.op == ReduceOp::Min;
  };
  const std::span<const std::size_t> sizes =
      tiny ? std::span<const std::size_t>(kTiny) : std::span<const std::size_t>(kSizes);
  const auto cases = examples(ranks, kTypes, sizes, exact);
  expect_no_errors(testing::run_as_threads(
      ranks,
      [&](World& world, int rank) {
        Communicator group = everybody(world);
        for (const auto& [dtype, count, inputs, results] : cases) {
          for (const auto& [op, expected] : results) {
            for (const Memory memory : kMemories) {
              Block io(group, memory, inputs[rank], dtype);
              group.all_reduce(io.buffer(), op, "case").wait();
              ASSERT_EQ(difference(io.content(), expected, dtype), "")
                  << name(op.op) << " of " << count << " " << name(dtype);
            }
          }
        }
      },
      forced(algorithm)));
}

TEST_P(Algorithms, RoundHalfTypesOnceAndGiveAllRanksTheSameBits) {
  const auto [algorithm, ranks] = GetParam();
  const std::size_t count = std::string_view(algorithm) == "inline" ? 12 : 5000;
  std::vector<Bytes> results(ranks);
  expect_no_errors(testing::run_as_threads(
      ranks,
      [&, ranks = ranks](World& world, int rank) {
        Communicator group = everybody(world);
        const auto inputs = all_values(DType::BFloat16, ranks, count);
        Block io(group, Memory::Mixed, inputs[rank], DType::BFloat16);
        group.all_reduce(io.buffer(), ReduceOp::Sum, "half").wait();
        results[rank] = io.content();
        for (std::size_t i = 0; i < count; ++i) {
          double sum = 0, size = 0;
          for (const Bytes& input : inputs) {
            const double x = testing::bf16_value(testing::load<std::uint16_t>(&input[2 * i]));
            sum += x;
            size += std::fabs(x);
          }
          const double got =
              testing::bf16_value(testing::load<std::uint16_t>(&results[rank][2 * i]));
          // Half a place of the result, and fp32's own roundings on the way.
          ASSERT_LE(std::fabs(got - sum), std::fabs(sum) / 256 + size * ranks * 0x1p-24) << i;
        }
      },
      forced(algorithm)));
  for (const Bytes& result : results) EXPECT_EQ(result == results[0], true);
}

TEST_P(Algorithms, MoveDataOfTheOtherCollectives) {
  const auto [algorithm, ranks] = GetParam();
  if (std::string_view(algorithm) == "inline") return;  // 24 bytes: nothing but small all-reduces
  constexpr DType kTypes[] = {DType::Int64};
  const auto cases = examples(ranks, kTypes, kSizes, testing::plain_sum);
  expect_no_errors(testing::run_as_threads(
      ranks,
      [&, ranks = ranks](World& world, int rank) {
        Communicator group = everybody(world);
        for (const auto& [dtype, count, inputs, results] : cases) {
          const Bytes& sum = results[0].bytes;
          const auto counts = uneven_counts(ranks, count);
          const auto at = begins(counts);
          const Bytes my_sum = cut(sum, dtype, at[rank], at[rank + 1]);
          for (const Memory memory : kMemories) {
            Block in(group, memory, inputs[rank], dtype);
            Block share(group, memory, Bytes(my_sum.size()), dtype);
            group.reduce_scatter(share.buffer(), in.buffer(), counts, ReduceOp::Sum, "rs").wait();
            ASSERT_EQ(share.content() == my_sum, true) << count;
            Block all(group, memory, Bytes(sum.size()), dtype);
            group.all_gather(all.buffer(), share.buffer(), counts, "ag").wait();
            ASSERT_EQ(all.content() == sum, true) << count;
            Block io(group, memory, inputs[rank], dtype);
            group.broadcast(io.buffer(), ranks - 1, "bc").wait();
            ASSERT_EQ(io.content() == inputs.back(), true) << count;
            Block total(group, memory, inputs[rank], dtype);
            group.reduce(total.buffer(), ReduceOp::Sum, 1, "reduce").wait();
            ASSERT_TRUE(rank != 1 || total.content() == sum) << count;
          }
        }
      },
      forced(algorithm)));
}

TEST_P(Algorithms, FillStatisticsLikeTheTwoShot) {
  const auto [algorithm, ranks] = GetParam();
  if (std::string_view(algorithm) == "inline") return;
  constexpr std::size_t kCount = 30011;
  const std::vector<std::int64_t> starts = {0, 11, 4097, 20000, 29999};
  std::vector<double> squares(starts.size(), -1);
  std::vector<std::uint64_t> bad(starts.size(), 99);
  expect_no_errors(testing::run_as_threads(
      ranks,
      [&, ranks = ranks](World& world, int rank) {
        Communicator group = everybody(world);
        std::vector<float> x(kCount, 1.0F);  // sums of ones are exact in every order
        if (rank == 1) x[4100] = std::numeric_limits<float>::infinity();
        ReduceStats stats;
        stats.block_starts = starts;
        group.all_reduce({x.data(), kCount}, ReduceOp::Sum, "stats", &stats).wait();
        for (std::size_t i = 0; i < stats.squares.size(); ++i) {  // disjoint between ranks
          squares[static_cast<std::size_t>(stats.first_block) + i] = stats.squares[i];
          bad[static_cast<std::size_t>(stats.first_block) + i] = stats.not_finite[i];
        }
        ASSERT_EQ(x[0], static_cast<float>(ranks));
      },
      forced(algorithm)));
  const double one = static_cast<double>(ranks) * ranks;
  EXPECT_EQ(squares[0], 11 * one);
  EXPECT_EQ(squares[1], (4097 - 11) * one);
  EXPECT_TRUE(std::isinf(squares[2]));
  EXPECT_EQ(squares[4], 12 * one);
  EXPECT_EQ(bad, (std::vector<std::uint64_t>{0, 0, 2, 0, 0}));
}

TEST(Algorithm, ForcedDifferentlyOnTwoRanksIsAnErrorOnBoth) {
  testing::SharedStore store;
  std::vector<std::string> errors(2);
  const auto mappings = std::make_shared<MappingCache>();
  std::vector<std::jthread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      WireUpOptions options = forced(r == 0 ? "direct" : "ring");
      options.rank = r;
      options.ranks = 2;
      options.mappings = mappings;
      World world = wire_up(&store, options);
      std::vector<float> x(5000);
      try {
        everybody(world).all_reduce({x.data(), x.size()}, ReduceOp::Sum, "x").wait();
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
    });
  }
  threads.clear();
  for (const std::string& error : errors) {
    EXPECT_THAT(error, ::testing::HasSubstr("by the algorithm"));
  }
}

TEST(Algorithm, InlineRefusesWhatADescriptorCannotHold) {
  const auto errors = testing::run_as_threads(
      2,
      [](World& world, int) {
        float x[7] = {};
        everybody(world).all_reduce({x, 7}, ReduceOp::Sum, "x").wait();
      },
      forced("inline"));
  for (const std::string& error : errors) {
    EXPECT_THAT(error, ::testing::HasSubstr("28 bytes do not fit into a descriptor"));
  }
}

TEST(SendRecv, FromAnySourceTakesEachMessageOnceAndSaysWhose) {
  expect_no_errors(testing::run_as_threads(4, [](World& world, int rank) {
    Communicator group = everybody(world);
    constexpr int kEach = 30;
    if (rank == 0) {
      std::vector<int> next(4, 0);
      for (int i = 0; i < 3 * kEach; ++i) {
        std::int32_t value = -1;
        Pending pending = group.recv({&value, 1, DType::Int32}, Communicator::kAnySource, 5, "any");
        pending.wait();
        const int from = pending.source();
        ASSERT_EQ(value, from * 1000 + next[from]++) << "in order per sender";
      }
      for (int r = 1; r < 4; ++r) ASSERT_EQ(next[r], kEach);
    } else {
      for (int i = 0; i < kEach; ++i) {
        const std::int32_t value = rank * 1000 + i;
        group.send({&value, 1, DType::Int32}, 0, 5, "to 0").wait();
      }
    }
  }));
}

TEST(Coalesced, SendsAndReceivesOfARingNeedNoOrder) {
  expect_no_errors(testing::run_as_threads(4, [](World& world, int rank) {
    Communicator group = everybody(world);
    std::vector<std::vector<std::int64_t>> out(40, {rank}), in(40, {-1});
    std::vector<Pending> parts;
    for (int i = 0; i < 40; ++i) {  // more than the credits of a pair
      parts.push_back(group.send({out[i].data(), 1, DType::Int64}, (rank + 1) % 4, 0, "right"));
    }
    for (int i = 0; i < 40; ++i) {
      parts.push_back(group.recv({in[i].data(), 1, DType::Int64}, (rank + 3) % 4, 0, "left"));
    }
    Pending all = Pending::all(std::move(parts));
    all.wait();
    EXPECT_TRUE(all.done());
    for (const auto& value : in) ASSERT_EQ(value[0], (rank + 3) % 4);
  }));
}

}  // namespace
}  // namespace tutti::comm
