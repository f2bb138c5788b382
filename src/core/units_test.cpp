// Numbers with units, read and written.
#include "core/units.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

TEST(ParseBytes, ReadsEveryUnitAsAPowerOfTwo) {
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("4K"), 4096u);
  EXPECT_EQ(parse_bytes("4k"), 4096u);
  EXPECT_EQ(parse_bytes("1.5G"), 3u << 29);
  EXPECT_EQ(parse_bytes("2 MiB"), 2u << 20);
  EXPECT_EQ(parse_bytes("2MB"), 2u << 20);
  EXPECT_EQ(parse_bytes("3T"), 3ull << 40);
  EXPECT_EQ(parse_bytes("7B"), 7u);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "1.5", "4X", "4KK", "4 K ", "1e3", "inf", "nan",
                           "99999999T", "0x10", "4iB"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(FormatBytes, UsesTheUnitThatKeepsTheNumberSmall) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(3u << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes((1u << 20) - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(format_bytes(~0ull), "16777216.0 TiB");
}

TEST(FormatCount, SeparatesThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(26'214'400), "26,214,400");
}

TEST(FormatSeconds, SaysWhatAPersonWouldSay) {
  EXPECT_EQ(format_seconds(0.0415), "41.5 ms");
  EXPECT_EQ(format_seconds(12e-6), "12 us");
  EXPECT_EQ(format_seconds(1.25), "1.2 s");
  EXPECT_EQ(format_seconds(59.97), "1 min 0 s");  // not "60.0 s"
  EXPECT_EQ(format_seconds(192), "3 min 12 s");
  EXPECT_EQ(format_seconds(3599.6), "1 h 0 min");
  EXPECT_EQ(format_seconds(7384), "2 h 3 min");
  EXPECT_EQ(format_seconds(-2), "-2.0 s");
  EXPECT_EQ(format_seconds(1.0 / 0.0), "unknown");
}

}  // namespace
}  // namespace tutti::core
