// The copies of a reshard, executed on arrays and compared element by element.
#include "mesh/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tutti::mesh {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Throws;
using testing::ThrowsMessage;

/// Oracle, element by element: which source must give this element.
int first_that_covers(const std::vector<FlatSlice>& sources, std::int64_t element) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (element >= sources[i].first && element < sources[i].first + sources[i].count) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// Runs the copies on arrays that hold (source, element) and checks every element of every target.
void expect_filled(const std::vector<FlatSlice>& sources, const std::vector<FlatSlice>& targets) {
  std::vector<std::vector<int>> got;
  for (const FlatSlice& target : targets) got.emplace_back(target.count, -1);
  for (const Copy& copy : reshard(sources, targets)) {
    ASSERT_GT(copy.count, 0);
    const FlatSlice& source = sources.at(static_cast<std::size_t>(copy.source));
    ASSERT_LE(copy.source_offset + copy.count, source.count);
    for (std::int64_t i = 0; i < copy.count; ++i) {
      int& place = got.at(static_cast<std::size_t>(copy.target)).at(copy.target_offset + i);
      EXPECT_EQ(place, -1) << "written twice";
      place = copy.source;
      EXPECT_EQ(source.first + copy.source_offset + i,
                targets[static_cast<std::size_t>(copy.target)].first + copy.target_offset + i);
    }
  }
  for (std::size_t t = 0; t < targets.size(); ++t) {
    for (std::int64_t i = 0; i < targets[t].count; ++i) {
      EXPECT_EQ(got[t][i], first_that_covers(sources, targets[t].first + i));
    }
  }
}

std::vector<FlatSlice> cut(std::int64_t elements, int parts) {
  std::vector<FlatSlice> slices;
  for (int part = 0; part < parts; ++part) {
    const std::int64_t begin = elements * part / parts;
    slices.push_back({begin, elements * (part + 1) / parts - begin});
  }
  return slices;
}

TEST(Reshard, TwoPiecesBecomeThree) {
  EXPECT_THAT(reshard(cut(6, 2), cut(6, 3)), ElementsAre(Copy{0, 0, 0, 0, 2}, Copy{0, 1, 2, 0, 1},
                                                         Copy{1, 1, 0, 1, 1}, Copy{1, 2, 1, 0, 2}));
}

TEST(Reshard, AnyNumberOfPiecesBecomesAnyOther) {
  for (const std::int64_t elements : {0, 1, 3, 64}) {  // none, fewer than pieces, uneven, even
    for (const int from : {1, 2, 3, 5}) {
      for (const int to : {1, 2, 4, 7}) expect_filled(cut(elements, from), cut(elements, to));
    }
  }
}

TEST(Reshard, RandomOverlappingSourcesGiveTheFirstThatCovers) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<FlatSlice> sources;
    for (int i = 0; i < 6; ++i) {
      const auto first = static_cast<std::int64_t>(random() % 40);
      sources.push_back({first, static_cast<std::int64_t>(random() % (41 - first))});
    }
    sources.push_back({0, 40});  // so that everything is covered
    const auto first = static_cast<std::int64_t>(random() % 40);
    expect_filled(sources, {{first, static_cast<std::int64_t>(random() % (41 - first))}, {0, 40}});
  }
}

TEST(Reshard, NamesTheFirstElementThatIsMissing) {
  EXPECT_THAT(
      [] {
        reshard({{0, 3}, {5, 5}}, {{0, 10}});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("element 3")));
  EXPECT_THAT(
      [] {
        reshard({}, {{4, 1}});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("element 4")));
  EXPECT_THAT(reshard({}, {{4, 0}}), IsEmpty());
  EXPECT_THAT([] { reshard({{-1, 3}}, {}); }, Throws<std::invalid_argument>());
  EXPECT_THAT([] { reshard({}, {{0, -1}}); }, Throws<std::invalid_argument>());
}

}  // namespace
}  // namespace tutti::mesh
