// The small parts: arena, slices, packets, cards, abort record, marks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include "comm/arena.h"
#include "comm/card.h"
#include "comm/control.h"
#include "comm/engine.h"
#include "comm/message.h"
#include "comm/peers.h"
#include "comm/slices.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/pages.h"

namespace tutti::comm {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Arena> make_arena(std::vector<std::size_t>* announced = nullptr) {
  return std::make_shared<Arena>(std::make_shared<MappingCache>(),
                                 [announced](std::uint16_t, int, std::size_t bytes) {
                                   if (announced != nullptr) announced->push_back(bytes);
                                 });
}

TEST(Arena, HandsOutAlignedDisjointMemoryAndTakesItBack) {
  const auto arena = make_arena();
  arena->add_segment(1 << 20);
  std::mt19937 random(1);
  std::vector<std::pair<std::shared_ptr<std::byte>, std::size_t>> blocks;
  for (int i = 0; i < 2000; ++i) {
    if (!blocks.empty() && random() % 2 == 0) {
      const std::size_t k = random() % blocks.size();
      for (std::size_t b = 0; b < blocks[k].second; ++b) {
        ASSERT_EQ(blocks[k].first.get()[b], static_cast<std::byte>(blocks[k].second)) << "overlap";
      }
      blocks.erase(blocks.begin() + static_cast<long>(k));
    } else {
      const std::size_t bytes = random() % 9000, align = std::size_t{64} << random() % 7;
      auto block = arena->allocate(bytes, align);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % align, 0U);
      std::memset(block.get(), static_cast<int>(bytes & 0xff), bytes);
      const auto place = arena->find(block.get(), bytes);
      ASSERT_TRUE(place.has_value());
      blocks.emplace_back(std::move(block), bytes);
    }
  }
  blocks.clear();
  EXPECT_EQ(arena->used_bytes(), 0U);
  const std::size_t reserved = arena->reserved_bytes();
  const auto whole = arena->allocate(1 << 20);  // all pieces have joined again
  EXPECT_EQ(arena->reserved_bytes(), reserved);
}

TEST(Arena, AnnouncesASegmentBeforeItsFirstUse) {
  std::vector<std::size_t> announced;
  const auto arena = make_arena(&announced);
  const auto a = arena->allocate(100);
  EXPECT_EQ(announced.size(), 1U);
  const auto b = arena->allocate(std::size_t{3} << 20);
  EXPECT_EQ(announced, (std::vector<std::size_t>{1 << 20, 3 << 20}));
}

TEST(Arena, FindsOnlyRangesThatLieWhollyInASegment) {
  const auto arena = make_arena();
  const auto block = arena->allocate(1 << 20);
  int outside = 0;
  EXPECT_FALSE(arena->find(&outside, 4).has_value());
  EXPECT_EQ(arena->find(block.get() + 64, 10)->offset, 64U);
  EXPECT_TRUE(arena->find(block.get(), 1 << 20).has_value());
  EXPECT_FALSE(arena->find(block.get() + 1, 1 << 20).has_value());
}

TEST(Arena, SaysTheSizesWhenMemoryRunsOut) {
  const auto arena = make_arena();
  try {
    arena->allocate(std::size_t{1} << 50);
    FAIL() << "a pebibyte was allocated";
  } catch (const core::RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1125899906842624 bytes of shared memory are wanted"));
  }
  EXPECT_NE(arena->allocate(64), nullptr) << "it goes on working";
  EXPECT_THROW(arena->allocate(64, 48), std::invalid_argument);
}

TEST(SharedMemory, OnFewerHugePagesThanRequiredIsRefusedWithBothNumbers) {
  constexpr std::size_t kBytes = 2 * core::kHugePage + 4096;
  core::forbid_huge_pages();
  const auto arena = make_arena();
  try {
    arena->add_segment(kBytes, /*require_huge=*/true);
    FAIL() << "there are no huge pages";
  } catch (const core::RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("of 4198400 bytes of shared memory only 0 lie on huge"));
  }
  EXPECT_EQ(arena->reserved_bytes(), 0U);
  arena->add_segment(kBytes);  // small pages serve where nobody requires others
  arena->add_segment(core::kHugePage - 4096, true);  // as where there is no whole huge page
  ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  EXPECT_EQ(arena->reserved_bytes(), kBytes + core::kHugePage - 4096);
}

TEST(MappingCache, MapsAMemoryOnceAndRefusesWhatIsNoSealedMemory) {
  MappingCache cache;
  const core::Fd fd = create_shared_memory("test", 8192), copy(::dup(fd.get()));
  EXPECT_EQ(cache.map(fd.get(), 8192), cache.map(copy.get(), 8192));
  EXPECT_THROW(cache.map(fd.get(), 8193), core::RunError);
  const core::Fd unsealed(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_THROW(cache.map(unsealed.get(), 8192), core::RunError);
}

TEST(Slices, CoverEverythingInOrderOnLinesOrPages) {
  for (const int ranks : {1, 2, 3, 8, 16}) {
    for (const std::size_t count : {0, 1, 15, 17, 1000, 100001}) {
      const auto bounds = even_bounds(count, 4, ranks);
      ASSERT_EQ(bounds.size(), static_cast<std::size_t>(ranks) + 1);
      EXPECT_EQ(bounds.front(), 0U);
      EXPECT_EQ(bounds.back(), count);
      const std::size_t unit = count * 4 >= static_cast<std::size_t>(ranks) * 4096 ? 1024 : 16;
      for (int r = 0; r < ranks; ++r) {
        EXPECT_LE(bounds[r], bounds[r + 1]);
        EXPECT_TRUE(bounds[r] % unit == 0 || bounds[r] == count);
        EXPECT_LE(bounds[r + 1] - bounds[r], count / ranks + unit) << "an even cut";
      }
    }
  }
}

TEST(Slices, MoveToBlockStarts) {
  const std::vector<std::int64_t> starts = {0, 10, 40, 45};
  EXPECT_EQ(cut_at_blocks({0, 10, 20, 41, 50}, starts),
            (std::vector<std::size_t>{0, 10, 40, 45, 50}));
  EXPECT_EQ(cut_at_blocks({0, 46, 50}, starts), (std::vector<std::size_t>{0, 50, 50}));
}

TEST(Packets, AreReadBackAndEveryDamageIsRefused) {
  Message message;
  message.kind = MessageKind::Group;
  message.rank = 2;
  message.set_text(std::string(200, 'x'));
  std::array<std::byte, sizeof(Message)> bytes;
  std::memcpy(bytes.data(), &message, sizeof(message));
  ASSERT_TRUE(parse_message(bytes, 3).has_value());
  EXPECT_EQ(std::strlen(parse_message(bytes, 3)->text), sizeof(message.text) - 1);
  EXPECT_FALSE(parse_message(bytes, 2).has_value()) << "rank beyond the world";
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(parse_message(std::span(bytes).first(length), 3).has_value());
  }
  for (const std::size_t at : {0, 4, 6}) {  // magic, version, kind
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x80};
    EXPECT_FALSE(parse_message(damaged, 3).has_value()) << "byte " << at;
  }
  auto endless = bytes;
  std::memset(endless.data() + offsetof(Message, text), 'y', sizeof(message.text));
  EXPECT_FALSE(parse_message(endless, 3).has_value());
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {  // whatever is accepted is within bounds
    std::array<std::byte, 140> noise;
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    if (i % 2 == 0) std::memcpy(noise.data(), bytes.data(), 8);
    const auto parsed = parse_message(std::span(noise).first(random() % noise.size()), 3);
    EXPECT_TRUE(!parsed || parsed->rank < 3U);
  }
}

TEST(Packets, TravelWithADescriptorAndTellGarbageAndTheEnd) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const core::Fd a(ends[0]);
  core::Fd b(ends[1]);
  EXPECT_EQ(receive_message(a.get(), 4).what, Received::What::Nothing);
  const core::Fd memory = create_shared_memory("test", 4096);
  Message message;
  message.kind = MessageKind::Segment;
  message.rank = 3;
  ASSERT_TRUE(send_message(b.get(), message, memory.get(), core::Deadline(core::Seconds(1))));
  ASSERT_EQ(::send(b.get(), "noise", 5, 0), 5);
  Received received = receive_message(a.get(), 4);
  EXPECT_EQ(received.what, Received::What::Message);
  EXPECT_NE(MappingCache().map(received.fd.get(), 4096), nullptr);
  EXPECT_EQ(receive_message(a.get(), 4).what, Received::What::Garbage);
  b = core::Fd();
  EXPECT_EQ(receive_message(a.get(), 4).what, Received::What::Closed);
  EXPECT_FALSE(send_message(a.get(), message, -1, core::Deadline(core::Seconds(1))));
}

TEST(Cards, AreReadBackAndRefusedWhenCutShort) {
  const Card card = {"boot", "net:[1]", "0001f", "host", 1};
  const std::string text = card.text();
  EXPECT_EQ(Card::parse(text)->address, "0001f");
  EXPECT_EQ(Card::parse(text)->host, "host");
  EXPECT_EQ(Card::parse(text)->numa, 1);
  for (const char* bad :
       {"", "tutti-2\na\nb\nc\nd\n0\n", "tutti-1\na\nb\n", "tutti-1\na\nb\n\nd\n0\n",
        "tutti-1\na\nb\nc\nd\n", "tutti-1\na\nb\nc\nd\n-2\n"}) {
    EXPECT_FALSE(Card::parse(bad).has_value()) << bad;
  }
  EXPECT_FALSE(Card::parse(Card{"b", "n", std::string(200, 'a'), "h", 0}.text()).has_value());
}

TEST(AbortRecord, KeepsTheFirstErrorAndCutsLongTexts) {
  MappingCache cache;
  const std::size_t bytes = ControlBlock::bytes(2, 16);
  const ControlBlock block(cache.map(create_shared_memory("test", bytes).get(), bytes), 2, 16);
  EXPECT_FALSE(block.aborted().has_value());
  block.abort(1, std::string(10000, 'a'));
  block.abort(0, "second");
  EXPECT_EQ(block.aborted()->culprit, 1);
  EXPECT_EQ(block.aborted()->text, std::string(AbortRecord::kTextBytes - 1, 'a'));
}

// As a rank leaves it that is killed between its claim and its last word.
TEST(AbortRecord, ThatIsHalfWrittenIsAnErrorSoonAndNamesTheCulprit) {
  MappingCache cache;
  const std::size_t bytes = ControlBlock::bytes(5, 0);
  const auto memory = cache.map(create_shared_memory("test", bytes).get(), bytes);
  const ControlBlock block(memory, 5, 0);
  auto* const state = reinterpret_cast<Word*>(memory->data() + sizeof(block.figures()));
  state->store(AbortRecord::kBeingWritten + 1 + 3);
  EXPECT_TRUE(block.any_abort());
  const core::Stopwatch watch;
  const auto abort = block.aborted();
  EXPECT_LT(watch.elapsed().count(), 0.3);
  ASSERT_TRUE(abort.has_value());
  EXPECT_EQ(abort->culprit, 3);
  EXPECT_THAT(abort->text, HasSubstr("an error of rank 3"));
  state->store(0xffffffffU);  // damaged: no rank has such a number
  EXPECT_EQ(block.aborted()->culprit, -1);
}

TEST(Marks, AreAtMostOneOperationFurtherThanWhoHasPassedThePoint) {
  EXPECT_TRUE(plausible(mark(7, 2), mark(7, 1)));
  EXPECT_TRUE(plausible(mark(8, 1), mark(7, 9)));
  EXPECT_FALSE(plausible(mark(9, 1), mark(7, 9)));
  EXPECT_TRUE(plausible(mark(0, 1), mark(0xffffffffU, 1)));
  EXPECT_FALSE(plausible(mark(1, 1), mark(0xffffffffU, 1)));
}

// Ranks of an earlier epoch need no cores.
TEST(Engine, KnowsAfterEveryChangeOfTheWorldWhetherCoresAreFew) {
  const auto cache = std::make_shared<MappingCache>();
  const int ranks = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)) + 1;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const std::size_t bytes = ControlBlock::bytes(ranks, 0);
  const auto block = [&] {
    return ControlBlock(cache->map(create_shared_memory("test", bytes).get(), bytes), ranks, 0);
  };
  Engine engine(0, std::make_unique<Peers>(0, ranks, 1, cache), cache, {});
  engine.set_world(block(), all);
  EXPECT_TRUE(engine.crowded());
  engine.set_world(block(), {0});
  EXPECT_FALSE(engine.crowded());
  engine.set_world(block(), all);
  EXPECT_TRUE(engine.crowded());
}

TEST(Numbers, AreComparedAcrossTheWrap) {
  EXPECT_TRUE(reached(2, 0xffffffffU));
  EXPECT_FALSE(reached(0xffffffffU, 2));
  EXPECT_TRUE(reached(7, 7));
}

}  // namespace
}  // namespace tutti::comm
