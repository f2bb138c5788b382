// The table of algorithms: reading, editing, choosing; and the flight recorder's ring.
#include "comm/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "comm/recorder.h"
#include "core/error.h"
#include "core/json.h"

namespace tutti::comm {
namespace {

using schedule::Algorithm;
using ::testing::HasSubstr;

constexpr GroupMap kOf2 = {2, 2, false}, kOf4 = {4, 4, false};

std::string refusal(const std::string& text) {
  try {
    ChoiceTable::parse(text);
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ChoiceTable, ReadsWhatItWroteAndTakesEdits) {
  ChoiceTable table;
  table.set({Collective::AllReduce, 2, 4096, Algorithm::OneShot, "measured"});
  table.set({Collective::AllReduce, 2, 512, Algorithm::Direct, "measured"});
  table.set({Collective::Broadcast, 4, 1 << 20, Algorithm::Chain, "edited"});
  ChoiceTable read = ChoiceTable::parse(table.json());
  EXPECT_EQ(read.json(), table.json());
  EXPECT_EQ(read.choose(Collective::AllReduce, kOf2, 512).algorithm, Algorithm::Direct);
  EXPECT_EQ(read.choose(Collective::AllReduce, kOf2, 513).algorithm, Algorithm::OneShot);
  EXPECT_EQ(read.choose(Collective::Broadcast, kOf4, 100).algorithm, Algorithm::Chain);
  read.set({Collective::AllReduce, 2, 4096, Algorithm::Ring, "by hand"});
  EXPECT_EQ(read.rows().size(), 3U) << "a row is replaced, not added";
  EXPECT_EQ(read.choose(Collective::AllReduce, kOf2, 4096).algorithm, Algorithm::Ring);
  EXPECT_EQ(read.choose(Collective::AllReduce, kOf2, 4096).why, "by hand");
}

TEST(ChoiceTable, FallsBackToTheModelWhereNoRowReaches) {
  const ChoiceTable empty;
  EXPECT_EQ(empty.choose(Collective::AllReduce, kOf2, 24).algorithm, Algorithm::Inline);
  EXPECT_EQ(empty.choose(Collective::AllReduce, kOf2, 25).algorithm, Algorithm::OneShot);
  EXPECT_EQ(empty.choose(Collective::AllReduce, kOf2, 1 << 20).algorithm, Algorithm::Direct);
  EXPECT_EQ(empty.choose(Collective::AllGather, kOf2, 8).algorithm, Algorithm::Direct);
  ChoiceTable other;
  other.set({Collective::AllReduce, 8, 1 << 20, Algorithm::Ring, "of another size of group"});
  EXPECT_EQ(other.choose(Collective::AllReduce, kOf2, 1 << 20).algorithm, Algorithm::Direct);
}

TEST(ChoiceTable, AddsInsideNumaNodesFirstWhereTheLinkWouldBeTheLimit) {
  const GroupMap two_nodes = {8, 4, true}, one_node = {8, 8, false}, pairs = {8, 2, false};
  EXPECT_EQ(model_choice(Collective::AllReduce, two_nodes, 1 << 20).algorithm,
            Algorithm::Hierarchical);
  EXPECT_EQ(model_choice(Collective::AllReduce, two_nodes, 1024).algorithm, Algorithm::Direct);
  EXPECT_EQ(model_choice(Collective::AllReduce, one_node, 1 << 20).algorithm, Algorithm::Direct);
  EXPECT_EQ(model_choice(Collective::AllReduce, pairs, 1 << 20).algorithm, Algorithm::Direct);
}

TEST(GroupMap, FollowsNodesThatHoldEqualConsecutiveParts) {
  const auto run = [](const std::vector<int>& numa) { return group_map(numa).run; };
  EXPECT_EQ(run({0}), 1);
  EXPECT_EQ(run({0, 0, 0}), 3);
  EXPECT_EQ(run({0, 0, 1, 1}), 2);
  EXPECT_TRUE(group_map(std::vector<int>{2, 2, 0, 0, 1, 1}).by_node);
  EXPECT_EQ(run({0, 1, 0, 1}), 4) << "not consecutive";
  EXPECT_EQ(run({0, 0, 1}), 3) << "not equal";
  EXPECT_EQ(run({0, 0, 1, 1, 0, 0}), 6) << "a node comes twice";
  EXPECT_EQ(run({-1, -1, 0, 0}), 4) << "unknown";
  EXPECT_EQ(run({0, 1}), 2) << "one rank a node: nothing to add inside";
  EXPECT_EQ(run(std::vector<int>(16, 0)), 16);
  EXPECT_EQ(run(std::vector<int>(24, 0)), 4);
  EXPECT_EQ(run(std::vector<int>(17, 0)), 1) << "no divisor: rank order";
}

TEST(ChoiceTable, RefusesWhatCannotBeRunByRowAndRule) {
  EXPECT_THAT(refusal("{"), HasSubstr("no JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("needs a list \"rows\""));
  EXPECT_THAT(refusal(R"({"rows":[{"op":"all-reduce"}]})"), HasSubstr("row 0"));
  const auto row = [](const char* op, const char* algorithm, int bytes, int ranks) {
    return core::Json{
        {"rows",
         {{{"op", op}, {"algorithm", algorithm}, {"ranks", ranks}, {"up_to_bytes", bytes}}}}}
        .dump();
  };
  EXPECT_EQ(refusal(row("all-reduce", "tree", 64, 2)), "accepted");
  EXPECT_THAT(refusal(row("all-reduce", "threes", 64, 2)), HasSubstr("did you mean tree"));
  EXPECT_THAT(refusal(row("all-to-all", "tree", 64, 2)), HasSubstr("has no algorithm tree"));
  EXPECT_THAT(refusal(row("all-reduce", "inline", 64, 2)), HasSubstr("a descriptor holds 24"));
  EXPECT_THAT(refusal(row("all-reduce", "ring", 64, 1)), HasSubstr("at least 2"));
}

TEST(ChoiceTable, SurvivesDamagedText) {
  ChoiceTable table;
  table.set({Collective::AllReduce, 2, 4096, Algorithm::OneShot, "measured"});
  const std::string good = table.json();
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (unsigned k = 0; k <= random() % 3; ++k) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) text.resize(random() % text.size());
    try {
      ChoiceTable::parse(text);
    } catch (const core::Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Recorder, KeepsTheLastEntriesAndIgnoresNewsOfOldOnes) {
  Recorder recorder;
  const std::size_t first = recorder.begin(Collective::Barrier, "g", "the first");
  for (std::size_t i = 0; i < Recorder::kEntries - 1; ++i) {
    recorder.begin(Collective::AllReduce, "a group with a long name", std::string(100, 'x'));
  }
  recorder.start(first, 7, 12, ticks());
  EXPECT_EQ(recorder.entries().front().number, 7U);
  recorder.begin(Collective::Send, "g", "over the first");
  recorder.end(first, true, ticks());
  const auto entries = recorder.entries();
  ASSERT_EQ(entries.size(), Recorder::kEntries);
  EXPECT_EQ(entries.back().state, Recorder::State::Queued) << "news of another operation";
  EXPECT_STREQ(entries.back().label.data(), "over the first");
  EXPECT_EQ(std::string(entries[5].label.data()), std::string(47, 'x'));
  const core::Json json = core::Json::parse(recorder.json(3, TickRate()));
  EXPECT_EQ(json["rank"], 3);
  EXPECT_EQ(json["operations_begun"], Recorder::kEntries + 1);
}

}  // namespace
}  // namespace tutti::comm
