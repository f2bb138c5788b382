// Parts of tensors, compared element by element with a tensor that holds its own indices.
#include "mesh/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace tutti::mesh {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

/// Oracle: walks the whole tensor [outer, bands x band, inner] and keeps what belongs to the part.
std::vector<std::int64_t> elements_of_part(const std::vector<std::int64_t>& shape, const Cut& cut) {
  std::int64_t inner = 1, all = 1;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    all *= shape[dim];
    if (static_cast<int>(dim) > cut.dim) inner *= shape[dim];
  }
  const std::int64_t band = shape[cut.dim] / cut.bands;
  const FlatSlice mine = share(band, cut.index, cut.of);
  std::vector<std::int64_t> elements;
  for (std::int64_t element = 0; element < all; ++element) {
    const std::int64_t in_band = element / inner % shape[cut.dim] % band;
    if (in_band >= mine.first && in_band < mine.first + mine.count) elements.push_back(element);
  }
  return elements;
}

std::vector<std::int64_t> elements_of(const std::vector<FlatSlice>& slices) {
  std::vector<std::int64_t> elements;
  for (const FlatSlice& slice : slices) {
    for (std::int64_t i = 0; i < slice.count; ++i) elements.push_back(slice.first + i);
  }
  return elements;
}

TEST(Cut, SharesAreNeighboursAndDifferByOne) {
  EXPECT_EQ(share(10, 0, 3), (FlatSlice{0, 4}));
  EXPECT_EQ(share(10, 1, 3), (FlatSlice{4, 3}));
  EXPECT_EQ(share(10, 2, 3), (FlatSlice{7, 3}));
  EXPECT_EQ(share(50257, 1, 2), (FlatSlice{25129, 25128}));
  EXPECT_EQ(share(2, 2, 3), (FlatSlice{2, 0}));
}

TEST(Cut, EverySliceOfEveryPartLiesWhereTheOracleSays) {
  const std::vector<std::vector<std::int64_t>> shapes = {{12}, {12, 3}, {4, 12}, {2, 12, 5}};
  for (const auto& shape : shapes) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      for (const int bands : {1, 3}) {
        if (shape[dim] % bands != 0) continue;
        for (const int of : {1, 2, 3, 5}) {
          std::int64_t together = 0;
          for (int index = 0; index < of; ++index) {
            const Cut cut{dim, bands, index, of};
            const auto expected = elements_of_part(shape, cut);
            const auto part = part_shape(shape, cut);
            const auto count =
                std::accumulate(part.begin(), part.end(), std::int64_t{1}, std::multiplies<>());
            together += count;
            ASSERT_EQ(static_cast<std::int64_t>(expected.size()), count);
            for (std::int64_t first = 0; first <= count; ++first) {
              const std::int64_t length = (count - first + 1) / 2;
              EXPECT_EQ(elements_of(place_in_whole(shape, cut, {first, length})),
                        std::vector(expected.begin() + first, expected.begin() + first + length));
            }
          }
          EXPECT_EQ(together, std::accumulate(shape.begin(), shape.end(), std::int64_t{1},
                                              std::multiplies<>()));
        }
      }
    }
  }
}

TEST(Cut, NeighbouringRunsAreOneSlice) {
  EXPECT_THAT(place_in_whole({4, 3}, {.dim = 0, .index = 1, .of = 2}, {0, 6}),
              ElementsAre(FlatSlice{6, 6}));
  EXPECT_THAT(place_in_whole({2, 4}, {.dim = 1, .index = 1, .of = 2}, {1, 3}),
              ElementsAre(FlatSlice{3, 1}, FlatSlice{6, 2}));
  EXPECT_THAT(place_in_whole({2, 4}, {}, {3, 5}), ElementsAre(FlatSlice{3, 5}));
  EXPECT_THAT(place_in_whole({2, 4}, {.dim = 1, .index = 1, .of = 2}, {4, 0}), IsEmpty());
}

TEST(Cut, RefusesWhatCannotBe) {
  const auto refused = [](const Cut& cut, FlatSlice slice, const char* why) {
    EXPECT_THAT(([&] {
                  place_in_whole({6, 4}, cut, slice);
                }),
                ThrowsMessage<std::invalid_argument>(HasSubstr(why)));
  };
  refused({.index = 2, .of = 2}, {0, 1}, "part 2 of 2");
  refused({.dim = 2, .of = 2}, {0, 1}, "dim 2");
  refused({.dim = 1, .bands = 3, .of = 2}, {0, 1}, "3 bands");
  refused({.dim = 0, .index = 0, .of = 2}, {0, 13}, "a part of 12");
}

}  // namespace
}  // namespace tutti::mesh
