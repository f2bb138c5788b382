// Control memory damaged between the moment one rank writes it and the moment another reads it.
// Whatever a reader acts on is covered by a sum: the damage is an error that names the rank, never
// a wrong result, a wild address or a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "comm/group.h"
#include "comm/testing.h"
#include "comm/testing_control.h"
#include "comm/testing_expect.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::BorrowedBlock;
using testing::everybody;
using testing::expect_no_errors;
using ::testing::HasSubstr;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 120;
#else
constexpr int kRounds = 400;
#endif

/// One operation on two ranks: rank 0 issues it, then its control memory is damaged, then rank 1
/// issues it. The buffers of a rank are its own, filled with rank + 1.
struct Work {
  std::shared_ptr<std::byte> arena;
  std::vector<float> heap = std::vector<float>(6000);
  float* x(bool in_arena) { return in_arena ? reinterpret_cast<float*>(arena.get()) : heap.data(); }
};
struct Kind {
  const char* name;
  std::function<Pending(Communicator&, Work&)> issue;
  std::function<bool(int rank, Work&)> right;
};

bool all_are(const float* x, std::size_t count, float value) {
  return std::all_of(x, x + count, [value](float v) { return v == value; });
}

const std::int64_t kShares[] = {1000, 2000}, kEven[] = {500, 500};

std::vector<Kind> collectives() {
  const auto sum = [](const char* name, std::size_t count, bool arena) {
    return Kind{name,
                [=](Communicator& g, Work& w) {
                  return g.all_reduce({w.x(arena), count}, ReduceOp::Sum, "sum");
                },
                [=](int, Work& w) { return all_are(w.x(arena), count, 3); }};
  };
  return {
      sum("inline", 4, false),
      sum("one-shot", 20, false),
      sum("direct", 5000, true),
      sum("staged", 5000, false),
      {"broadcast",
       [](auto& g, Work& w) {
         return g.broadcast({w.x(true), 5000}, 0, "b");
       },
       [](int, Work& w) { return all_are(w.x(true), 5000, 1); }},
      {"all_gather",
       [](Communicator& g, Work& w) {
         float* x = w.x(true);
         const auto r = static_cast<std::size_t>(g.rank());
         return g.all_gather({x, 3000}, ConstBuffer(x + 1000 * r, 1000 * (r + 1), DType::Float32),
                             kShares, "g");
       },
       [](int, Work& w) {
         return all_are(w.x(true), 1000, 1) && all_are(w.x(true) + 1000, 2000, 2);
       }},
      {"reduce",
       [](auto& g, Work& w) {
         return g.reduce({w.x(true), 5000}, ReduceOp::Sum, 1, "r");
       },
       [](int rank, Work& w) { return rank == 0 || all_are(w.x(true), 5000, 3); }},
      {"all_to_all",
       [](Communicator& g, Work& w) {
         return g.all_to_all({w.x(false), 1000}, ConstBuffer(w.x(true), 1000, DType::Float32),
                             kEven, kEven, "x");
       },
       [](int, Work& w) {
         return all_are(w.x(false), 500, 1) && all_are(w.x(false) + 500, 500, 2);
       }},
      {"barrier", [](auto& g, Work&) { return g.barrier("b"); }, [](int, Work&) { return true; }},
  };
}

/// Damages something of rank 0; true if a reader must notice.
using Damage = std::function<bool(const BorrowedBlock& block, const Kind& kind, std::mt19937&)>;

void run(const std::vector<Kind>& kinds, const Damage& damage) {
  WireUpOptions options;
  options.comm.table = R"({"rows":[]})";  // nothing to measure
  options.comm.timeout_s = 20;
  std::atomic<int> issued = 0, noticed = 0, unharmed = 0;
  expect_no_errors(testing::run_as_threads(
      2,
      [&](World& world, int rank) {
        std::mt19937 random(14);
        Communicator steady = everybody(world);
        Work work;
        work.arena = steady.allocate(24000);
        for (int round = 0; round < kRounds; ++round) {
          const Kind& kind = kinds[static_cast<std::size_t>(round) % kinds.size()];
          const auto before = testing::control_blocks();
          steady.barrier("before the group").wait();
          Communicator group = everybody(world);
          std::fill_n(work.x(true), 6000, static_cast<float>(rank + 1));
          std::fill_n(work.x(false), 6000, static_cast<float>(rank + 1));
          bool must_fail = false;
          if (rank == 1) {
            std::byte* const memory = testing::new_block(before, testing::control_blocks());
            ASSERT_NE(memory, nullptr);
            while (issued != round + 1) std::this_thread::yield();
            must_fail = damage(BorrowedBlock(memory, 2, Group::kEnvelopes), kind, random);
          }
          std::string error;
          int culprit = -1;
          try {
            Pending pending = kind.issue(group, work);
            if (rank == 0) issued = round + 1;
            pending.wait();
          } catch (const core::PeerError& e) {
            error = e.what();
            culprit = e.rank();
          }
          if (rank == 0) issued = round + 1;
          const bool fine = !error.empty() || kind.right(rank, work);
          ASSERT_TRUE(fine) << kind.name << " WRONG RESULT";
          if (rank == 1) {
            ASSERT_EQ(!error.empty(), must_fail) << kind.name << " " << round << ": " << error;
            if (must_fail) {
              EXPECT_EQ(culprit, 0) << error;
              EXPECT_THAT(error, HasSubstr("rank 0"));
            }
            ++(must_fail ? noticed : unharmed);
          }
          steady.barrier("after the group").wait();
        }
      },
      options));
  EXPECT_GT(noticed, kRounds / 3);
}

TEST(FuzzedDescriptors, AreErrorsThatNameTheRankAndNeverWrongResults) {
  run(collectives(), [](const BorrowedBlock& block, const Kind&, std::mt19937& random) {
    auto* bytes = reinterpret_cast<unsigned char*>(&block->descriptor(0, 1));
    std::set<std::size_t> places;  // different ones, so that no damage undoes another
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      places.insert(random() % offsetof(OpDescriptor, seq));
    }
    for (const std::size_t at : places) bytes[at] ^= static_cast<unsigned char>(1 + random() % 255);
    return true;
  });
}

TEST(FuzzedDescriptors, OfAnotherOperationAreNotTakenForThisOne) {
  // The sequence number alone is damaged, so that what was left by no operation looks like one.
  const auto kinds = collectives();
  WireUpOptions options;
  options.comm.table = R"({"rows":[]})";
  std::atomic<int> made = 0;
  for (const Kind& kind : kinds) {
    made = 0;
    const auto errors = testing::run_as_threads(
        2,
        [&](World& world, int rank) {
          Communicator steady = everybody(world);
          const auto before = testing::control_blocks();
          steady.barrier("before").wait();
          Communicator group = everybody(world);
          ++made;
          while (made < 2) std::this_thread::yield();
          Work work;
          work.arena = steady.allocate(24000);
          if (rank == 0) {
            while (made < 3) std::this_thread::yield();
            return;  // it never issues anything
          }
          std::byte* const memory = testing::new_block(before, testing::control_blocks());
          ASSERT_NE(memory, nullptr);
          BorrowedBlock(memory, 2, Group::kEnvelopes)->descriptor(0, 1).seq.store(1);
          try {
            kind.issue(group, work).wait();
          } catch (...) {
            made = 3;
            throw;
          }
          made = 3;
        },
        options);
    EXPECT_THAT(errors[1], HasSubstr("rank 0")) << kind.name;
  }
}

// Rank 1 has no share, so it looks at the mark while rank 0 is at work.
TEST(FuzzedMarks, ThatNoRankCanHaveSetAreErrorsAndNotTheEndOfTheWork) {
  constexpr std::size_t kCount = 8'000'000;
  const std::int64_t shares[] = {kCount, 0};
  WireUpOptions options;
  options.comm.table = R"({"rows":[]})";
  const auto errors = testing::run_as_threads(
      2,
      [&](World& world, int rank) {
        Communicator steady = everybody(world);
        const auto memory = steady.allocate(kCount * sizeof(float));
        auto* const x = reinterpret_cast<float*>(memory.get());
        std::fill_n(x, kCount, 1.0F);
        const auto before = testing::control_blocks();
        steady.barrier("before").wait();
        Communicator group = everybody(world);
        steady.barrier("made").wait();
        if (rank == 1) {
          std::byte* const block = testing::new_block(before, testing::control_blocks());
          ASSERT_NE(block, nullptr);
          BorrowedBlock(block, 2, Group::kEnvelopes)->lines(0).marks.at.store(mark(77, 1));
        }
        const std::size_t share = rank == 0 ? kCount : 0;
        group.reduce_scatter({x, share}, {x, kCount}, shares, ReduceOp::Sum, "sum").wait();
      },
      options);
  EXPECT_THAT(errors[1], HasSubstr("rank 0 is said to be at point 1 of operation #77"));
}

TEST(FuzzedMessages, AreErrorsThatNameTheSenderAndNeverWrongData) {
  const Kind message = {"message",
                        [](Communicator& g, Work& w) {
                          return g.rank() == 0
                                     ? g.send({w.x(true), 5000, DType::Float32}, 1, 3, "m")
                                     : g.recv({w.x(true), 5000}, 0, 3, "m");
                        },
                        [](int, Work& w) { return all_are(w.x(true), 5000, 1); }};
  run({message}, [](const BorrowedBlock& block, const Kind&, std::mt19937& random) {
    Envelope& envelope = block->envelope(0, 1, 0);
    auto* bytes = reinterpret_cast<unsigned char*>(&envelope);
    // Neither the flag nor the tag: without them nothing has come, which is another error.
    const std::size_t first = offsetof(Envelope, number);
    const std::size_t at = first + random() % (offsetof(Envelope, sum) + 8 - first);
    bytes[at] ^= static_cast<unsigned char>(1 + random() % 255);
    const std::size_t padding = offsetof(Envelope, dtype) + 1;
    return at < padding || at >= offsetof(Envelope, offset);
  });
}

TEST(FuzzedCounts, OfAllToAllAreErrorsAndNeverAddresses) {
  const auto kinds = collectives();
  const auto exchange = std::find_if(kinds.begin(), kinds.end(), [](const Kind& kind) {
    return std::string_view(kind.name) == "all_to_all";
  });
  run({*exchange}, [](const BorrowedBlock& block, const Kind&, std::mt19937& random) {
    std::byte* const slot = block->one_shot(0, 1);
    // Also such as make the sum of a row wrap around to what it was.
    const std::uint64_t wild = std::uint64_t{random()} << 32 | random();
    const std::uint64_t counts[2] = {500 - wild, random() % 2 == 0 ? 500 + wild : 500};
    std::memcpy(slot, counts, sizeof(counts));
    return true;
  });
}

}  // namespace
}  // namespace tutti::comm
