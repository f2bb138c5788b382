// What callers get wrong: sizes, places, lists, roots, and groups that have ended. It works, or it
// is refused by name before anything is sent, so the group stays in step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <thread>

#include "comm/testing.h"
#include "comm/testing_block.h"
#include "comm/testing_expect.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::Block;
using testing::Bytes;
using testing::everybody;
using testing::expect_no_errors;
using ::testing::HasSubstr;
using testing::kMemories;

WireUpOptions unmeasured(const char* algorithm = "auto") {
  WireUpOptions options;
  options.comm.table = R"({"rows":[]})";
  options.comm.algorithm = algorithm;
  return options;
}

/// The text of what a call throws; "accepted" if it throws nothing of that kind.
template <class Error = std::invalid_argument>
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(BadInput, NothingToMoveIsAnOperationLikeAnyOther) {
  for (const schedule::Algorithm algorithm : schedule::all_algorithms()) {
    const std::string name(schedule::name(algorithm));
    expect_no_errors(testing::run_as_threads(
        3,
        [](World& world, int rank) {
          Communicator g = everybody(world);
          const std::vector<std::int64_t> none = {0, 0, 0}, one = {0, 5, 0};
          for (int round = 0; round < 3; ++round) {  // both parities, and over old descriptors
            g.all_reduce({nullptr, 0}, ReduceOp::Avg, "").wait();
            g.reduce({nullptr, 0}, ReduceOp::Sum, 1, "").wait();
            g.reduce_scatter({}, {}, none, ReduceOp::Max, "").wait();
            g.all_gather({}, {}, none, "").wait();
            g.broadcast({}, 2, "").wait();
            g.scatter({}, {}, none, 0, "").wait();
            g.gather({}, {}, none, 1, "").wait();
            g.all_to_all({}, {}, none, none, "").wait();
            if (rank == 0) g.send({}, 2, 0, "").wait();
            if (rank == 2) g.recv({}, 0, 0, "").wait();
            // One rank has everything, the others nothing.
            std::vector<float> whole(5, static_cast<float>(rank)), share(rank == 1 ? 5 : 0, 1.0F);
            g.all_gather({whole.data(), 5}, ConstBuffer(share.data(), share.size(), DType::Float32),
                         one, "")
                .wait();
            ASSERT_EQ(whole, std::vector<float>(5, 1.0F));
            ReduceStats stats;
            g.all_reduce({nullptr, 0}, ReduceOp::Sum, "", &stats).wait();
            ASSERT_TRUE(stats.squares.empty());
          }
        },
        unmeasured(name.c_str())));
  }
}

TEST(BadInput, OverlappingBuffersAreRefusedUnlessOneIsExactlyItsPlace) {
  expect_no_errors(testing::run_as_threads(
      2,
      [](World& world, int rank) {
        Communicator g = everybody(world);
        float x[16] = {};
        const std::vector<std::int64_t> four = {4, 4};
        float* const mine = x + 4 * rank;
        for (float* wrong : {mine + 1, rank == 0 ? x + 4 : x}) {
          const ConstBuffer in = {wrong, 4, DType::Float32};
          EXPECT_THAT(refusal([&] {
                        g.reduce_scatter({wrong, 4}, {x, 8}, four, ReduceOp::Sum, "");
                      }),
                      HasSubstr("overlap"));
          EXPECT_THAT(refusal([&] { g.all_gather({x, 8}, in, four, ""); }), HasSubstr("overlap"));
          EXPECT_THAT(refusal([&] {
                        g.scatter({wrong, 4}, Buffer{x, 8}, four, rank, "");
                      }),
                      HasSubstr("overlap"));
          EXPECT_THAT(refusal([&] { g.gather({x, 8}, in, four, rank, ""); }), HasSubstr("overlap"));
        }
        for (float* near : {x, x + 1, x + 7}) {
          EXPECT_THAT(refusal([&] {
                        g.all_to_all({near, 8}, Buffer{x, 8}, four, four, "");
                      }),
                      HasSubstr("overlap"));
        }
        g.all_gather({x, 8}, Buffer{mine, 4}, four, "its place").wait();
        g.all_to_all({x + 8, 8}, Buffer{x, 8}, four, four, "side by side").wait();
      },
      unmeasured()));
}

TEST(BadInput, ListsAndBuffersMustAgree) {
  expect_no_errors(testing::run_as_threads(
      2,
      [](World& world, int rank) {
        Communicator g = everybody(world);
        float x[16] = {}, y[16] = {};
        std::int32_t n[16] = {};
        const std::vector<std::int64_t> none, one = {4}, two = {4, 4}, three = {4, 4, 4},
                                              minus = {9, -1};
        for (const auto* list : {&none, &one, &three}) {
          const auto text = std::to_string(list->size()) + " counts for a group of 2 ranks";
          EXPECT_THAT(refusal([&] {
                        g.reduce_scatter({y, 4}, {x, 8}, *list, ReduceOp::Sum, "");
                      }),
                      HasSubstr(text));
          EXPECT_THAT(refusal([&] {
                        g.all_gather({x, 8}, Buffer{y, 4}, *list, "");
                      }),
                      HasSubstr(text));
          EXPECT_THAT(refusal([&] {
                        g.scatter({y, 4}, Buffer{x, 8}, *list, 0, "");
                      }),
                      HasSubstr(text));
          EXPECT_THAT(refusal([&] {
                        g.gather({x, 8}, Buffer{y, 4}, *list, 0, "");
                      }),
                      HasSubstr(text));
          EXPECT_THAT(refusal([&] {
                        g.all_to_all({x, 8}, Buffer{y, 8}, *list, two, "");
                      }),
                      HasSubstr(text));
          EXPECT_THAT(refusal([&] {
                        g.all_to_all({x, 8}, Buffer{y, 8}, two, *list, "");
                      }),
                      HasSubstr(text));
        }
        EXPECT_THAT(refusal([&] {
                      g.all_to_all({x, 8}, Buffer{y, 8}, minus, two, "");
                    }),
                    HasSubstr("count -1 is negative"));
        EXPECT_THAT(refusal([&] {
                      g.all_gather({x, 9}, Buffer{y, 4}, two, "");
                    }),
                    HasSubstr("add up to 8 elements but the buffer has 9"));
        EXPECT_THAT(refusal([&] {
                      g.all_gather({x, 8}, Buffer{y, 3}, two, "");
                    }),
                    HasSubstr("share is 4 elements"));
        EXPECT_THAT(refusal([&] {
                      g.scatter({y, 4}, Buffer{x, 7}, two, rank, "");
                    }),
                    HasSubstr("the root's in has 7"));
        EXPECT_THAT(refusal([&] {
                      g.all_gather({x, 8}, {n, 4, DType::Int32}, two, "");
                    }),
                    HasSubstr("out holds float32, in holds int32"));
        // Neither side of a rooted operation may hand in nothing for something.
        EXPECT_THAT(refusal([&] {
                      g.scatter({nullptr, 4}, {}, two, 1 - rank, "");
                    }),
                    HasSubstr("out is null but has 4 elements"));
        EXPECT_THAT(refusal([&] {
                      g.gather({}, {nullptr, 4, DType::Float32}, two, 1 - rank, "");
                    }),
                    HasSubstr("in is null but has 4 elements"));
        for (const int root : {-1, 2}) {
          EXPECT_THAT(refusal([&] {
                        g.reduce({x, 4}, ReduceOp::Sum, root, "");
                      }),
                      HasSubstr("none of the 2 ranks"));
        }
        EXPECT_THAT(refusal([&] { g.recv({x, 4}, 1 - rank, -3, ""); }), HasSubstr("tag -3"));
        g.barrier("still in step").wait();
      },
      unmeasured()));
}

// Products and sums of sizes that wrap around would pass every later check.
TEST(BadInput, SizesBeyondAnyMemoryAreRefused) {
  expect_no_errors(testing::run_as_threads(
      4,
      [](World& world, int) {
        Communicator g = everybody(world);
        double x[8] = {};
        const std::size_t wraps = (std::size_t{1} << 61) + 1;  // times 8 is 8
        EXPECT_THAT(refusal([&] {
                      g.all_reduce({x, wraps, DType::Float64}, ReduceOp::Sum, "");
                    }),
                    HasSubstr("no memory holds so many"));
        EXPECT_THAT(refusal([&] {
                      g.send({x, wraps, DType::Float64}, (g.rank() + 1) % 4, 0, "");
                    }),
                    HasSubstr("no memory holds so many"));
        const std::int64_t quarter = std::int64_t{1} << 62;  // four of them are 0
        const std::vector<std::int64_t> huge(4, quarter), none(4, 0);
        EXPECT_THAT(refusal([&] { g.all_to_all({}, {}, huge, none, ""); }),
                    HasSubstr("more elements than any memory holds"));
        EXPECT_THAT(refusal([&] { g.all_to_all({}, {}, none, huge, ""); }),
                    HasSubstr("more elements than any memory holds"));
        EXPECT_THAT(refusal<core::RunError>([&] { (void)g.allocate(std::size_t{1} << 63); }),
                    HasSubstr("9223372036854775808 bytes of shared memory are wanted"));
        g.barrier("still in step").wait();
      },
      unmeasured()));
}

TEST(BadInput, BuffersOffTheirElementsAreRefused) {
  expect_no_errors(testing::run_as_threads(
      2,
      [](World& world, int) {
        Communicator g = everybody(world);
        alignas(8) std::byte bytes[64] = {};
        EXPECT_THAT(refusal([&] {
                      g.all_reduce({bytes + 2, 4}, ReduceOp::Sum, "");
                    }),
                    HasSubstr("no multiple of 4 bytes, the size of float32"));
        g.all_reduce({bytes + 2, 4, DType::BFloat16}, ReduceOp::Sum, "").wait();
        g.all_reduce({bytes + 1, 4, DType::Int8}, ReduceOp::Sum, "").wait();
      },
      unmeasured()));
}

TEST(BadInput, BoolsOfAnyBytesAreTruthsAndComeOutAsZeroOrOne) {
  for (const schedule::Algorithm algorithm : schedule::all_algorithms()) {
    const std::string name(schedule::name(algorithm));
    const std::size_t count = name == "inline" ? 20 : 9001;
    expect_no_errors(testing::run_as_threads(
        3,
        [count](World& world, int rank) {
          Communicator g = everybody(world);
          constexpr unsigned char kBytes[] = {0, 1, 2, 0x80, 0xff};
          const auto value = [&](int r, std::size_t i) {
            return kBytes[(i * 7 + static_cast<std::size_t>(r) * (1 + i / 5)) % 5];
          };
          for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min,
                                    ReduceOp::BitAnd, ReduceOp::BitOr, ReduceOp::BitXor}) {
            const bool all =
                op == ReduceOp::Product || op == ReduceOp::Min || op == ReduceOp::BitAnd;
            Bytes mine(count), expected(count);
            for (std::size_t i = 0; i < count; ++i) {
              mine[i] = std::byte{value(rank, i)};
              int trues = 0;
              for (int r = 0; r < 3; ++r) trues += value(r, i) != 0 ? 1 : 0;
              const bool truth = op == ReduceOp::BitXor ? trues % 2 == 1
                                 : all                  ? trues == 3
                                                        : trues > 0;
              expected[i] = std::byte{truth};
            }
            for (const auto memory : kMemories) {
              Block io(g, memory, mine, DType::Bool);
              g.all_reduce(io.buffer(), op, "bools").wait();
              ASSERT_EQ(testing::difference(io.content(), expected, DType::Bool), "")
                  << comm::name(op);
            }
          }
        },
        unmeasured(name.c_str())));
  }
}

TEST(BadInput, UnequalSizesAreAnErrorOnEveryRankWhateverTheOperation) {
  using Issue = std::function<Pending(Communicator&, float*, std::size_t)>;
  const std::vector<Issue> issues = {
      [](Communicator& g, float* x, std::size_t n) {
        return g.all_reduce({x, n}, ReduceOp::Sum, "");
      },
      [](Communicator& g, float* x, std::size_t n) {
        return g.broadcast({x, n}, 0, "");
      },
      [](Communicator& g, float* x, std::size_t n) {
        return g.reduce({x, n}, ReduceOp::Sum, 0, "");
      },
      [](Communicator& g, float* x, std::size_t n) {
        const auto k = static_cast<std::int64_t>(n);
        const std::vector<std::int64_t> counts = {k, k, k};
        return g.all_gather({x, 3 * n}, Buffer{x + n * static_cast<std::size_t>(g.rank()), n},
                            counts, "");
      },
      [](Communicator& g, float* x, std::size_t n) {
        if (g.rank() == 2) return g.barrier("");  // the third has nothing to do with it
        return g.all_reduce({x, n}, ReduceOp::Sum, "");
      }};
  const std::pair<std::size_t, std::size_t> sizes[] = {{4, 5}, {20, 4}, {5000, 4}, {5000, 5001}};
  for (const Issue& issue : issues) {
    for (const auto& [few, many] : sizes) {
      const core::Stopwatch watch;
      const auto errors = testing::run_as_threads(
          3,
          [&, few = few, many = many](World& world, int rank) {
            std::vector<float> x(3 * std::max(few, many));
            Communicator g = everybody(world);
            issue(g, x.data(), rank == 1 ? many : few).wait();
            g.barrier("behind it").wait();  // a rank that had all it needed learns of it here
          },
          unmeasured());
      for (const auto& error : errors) EXPECT_THAT(error, HasSubstr("same operations"));
      EXPECT_LT(watch.elapsed().count(), 10.0) << "at once, not by the deadline of ten minutes";
    }
  }
}

TEST(AbortedGroups, RefuseEveryOperationWithTheFirstError) {
  std::atomic<bool> issued = false, told = false;         // by rank 0; of the abort
  const auto await = [](const std::atomic<bool>& flag) {  // not for ever: rank 0 may fail
    const core::Deadline patience{core::Seconds(30)};
    while (!flag && !patience.passed()) std::this_thread::yield();
  };
  expect_no_errors(testing::run_as_threads(
      2,
      [&](World& world, int rank) {
        Communicator g = everybody(world), other = everybody(world);
        std::vector<float> x(5000), y(5000);
        const auto text = "rank 1 stops the run: the disk is full";
        if (rank == 1) {
          await(issued);
          world.abort("the disk is full");
          await(told);  // what it issues must not look like a mismatch
        } else {
          Pending under_way = g.all_reduce({x.data(), 5000}, ReduceOp::Sum, "");
          issued = true;
          EXPECT_THAT(refusal<core::PeerError>([&] { under_way.wait(); }), HasSubstr(text));
          EXPECT_THAT(refusal<core::PeerError>([&] { under_way.wait(); }), HasSubstr(text));
          told = true;
        }
        const auto same = [&] { g.all_reduce({x.data(), 5000}, ReduceOp::Sum, "").wait(); };
        EXPECT_THAT(refusal<core::PeerError>(same), HasSubstr(text));
        const std::vector<std::int64_t> even = {2500, 2500};
        const Buffer share = {y.data(), 2500}, whole = {x.data(), 5000};
        const std::vector<std::function<Pending(Communicator&)>> all = {
            [&](auto& c) {
              return c.all_reduce({x.data(), 4}, ReduceOp::Sum, "");
            },
            [&](auto& c) { return c.all_reduce(whole, ReduceOp::Sum, ""); },
            [&](auto& c) { return c.reduce(whole, ReduceOp::Sum, 0, ""); },
            [&](auto& c) { return c.reduce_scatter(share, whole, even, ReduceOp::Sum, ""); },
            [&](auto& c) { return c.all_gather(whole, share, even, ""); },
            [&](auto& c) { return c.broadcast(whole, 0, ""); },
            [&](auto& c) { return c.scatter(share, whole, even, 0, ""); },
            [&](auto& c) { return c.gather(whole, share, even, 0, ""); },
            [&](auto& c) {
              return c.all_to_all({y.data(), 5000}, whole, even, even, "");
            },
            [&](auto& c) { return c.barrier(""); },
            [&](auto& c) { return c.send(whole, 1 - c.rank(), 0, ""); },
            [&](auto& c) { return c.recv(whole, 1 - c.rank(), 0, ""); }};
        for (const auto& issue : all) {
          EXPECT_THAT(refusal<core::PeerError>([&] { issue(g).wait(); }), HasSubstr(text));
          EXPECT_THAT(refusal<core::PeerError>([&] { issue(other).wait(); }), HasSubstr(text));
        }
        EXPECT_EQ(g.size(), 2) << "it can still be asked";
        EXPECT_NE(g.allocate(100), nullptr) << "its memory is there";
      },
      unmeasured()));
}

}  // namespace
}  // namespace tutti::comm
