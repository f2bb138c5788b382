// Hashes against published values, and the law that makes param_hash free of layout.
#include "core/hash.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace tutti::core {
namespace {

TEST(Xxh3, GivesThePublishedHashOfNothing) {
  EXPECT_EQ(xxh3(std::string_view("")), 0x2d06800538d394c2u);
}

TEST(Xxh3, GivesPiecesTheHashOfTheWhole) {
  const std::vector<std::byte> data(1000, std::byte{7});
  for (const std::size_t cut : {0u, 1u, 239u, 256u, 999u, 1000u}) {
    Xxh3 hash;
    hash.update(std::span(data).first(cut));
    hash.update(std::span(data).subspan(cut));
    EXPECT_EQ(hash.digest(), xxh3(data)) << "cut at " << cut;
  }
}

TEST(Hex, GoesThereAndBack) {
  EXPECT_EQ(to_hex(0xc0ffee), "0000000000c0ffee");
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0xc0ffee}, ~std::uint64_t{0}}) {
    EXPECT_EQ(from_hex(to_hex(value)), value);
  }
}

TEST(Hex, RefusesWhatIsNoHash) {
  for (const char* text :
       {"", "c0ffee", "0000000000C0FFEE", "000000000000000g", "00000000000000000"}) {
    EXPECT_THROW(from_hex(text), std::invalid_argument) << text;
  }
}

TEST(Mix64, IsTwoStepsOfSplitmix64) {
  // splitmix64 seeded with 0 begins 0xe220a8397b1dcdaf; b turns the inner value into the next
  // step's argument.
  constexpr std::uint64_t kFirst = 0xe220a8397b1dcdaf, kGamma = 0x9e3779b97f4a7c15;
  EXPECT_EQ(mix64(0, kFirst ^ kGamma), kFirst);
  EXPECT_EQ(mix64(0, kFirst ^ (2 * kGamma)), 0x6e789e6aa1b965f4u);  // and goes on like this
}

TEST(ParamHash, IsTheSumThatItsHeaderStates) {
  const std::vector<float> values = {1.0f, -2.5f};
  const std::uint64_t name = xxh3(std::string_view("blocks.0.weight"));
  EXPECT_EQ(param_hash("blocks.0.weight", 10, values),
            mix64(name + 10, 0x3f800000) + mix64(name + 11, 0xc0200000));
  const std::vector<double> wide = {1.0};
  EXPECT_EQ(param_hash("blocks.0.weight", 10, wide), mix64(name + 10, 0x3ff0000000000000));
}

TEST(ParamHash, AddsUpOverPieces) {
  std::vector<float> values(101);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.1f;
  const std::uint64_t whole = param_hash("w", 0, values);
  const std::span<const float> all = values;
  EXPECT_EQ(param_hash("w", 33, all.subspan(33)) + param_hash("w", 0, all.first(33)), whole);
  EXPECT_EQ(param_hash("w", 5, all.first(0)), 0u);
}

TEST(ParamHash, SeesPlaceNameAndSign) {
  const std::vector<float> values = {1.0f, 2.0f}, swapped = {2.0f, 1.0f}, negative = {-1.0f, 2.0f};
  const std::uint64_t hash = param_hash("w", 0, values);
  EXPECT_NE(hash, param_hash("w", 0, swapped));
  EXPECT_NE(hash, param_hash("v", 0, values));
  EXPECT_NE(hash, param_hash("w", 1, values));
  EXPECT_NE(hash, param_hash("w", 0, negative));
}

}  // namespace
}  // namespace tutti::core
