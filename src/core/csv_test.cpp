// Tables as people and spreadsheets write them.
#include "core/csv.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace tutti::core {
namespace {

using testing::ElementsAre;

TEST(Csv, ReadsCellsByTheNameOfTheirColumn) {
  const CsvTable table = read_csv("a,b\n1,2\n3\n");
  EXPECT_THAT(table.columns, ElementsAre("a", "b"));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].text("b"), "2");
  EXPECT_EQ(table.rows[1].text("a"), "3");
  EXPECT_EQ(table.rows[1].text("b"), "") << "the line lacks it";
  EXPECT_EQ(table.rows[1].text("c"), "") << "the header lacks it";
}

TEST(Csv, QuotesHoldCommasQuotesAndLineBreaks) {
  const CsvTable table = read_csv("a,b\n\"x, y\",\"say \"\"no\"\"\nnow\"\nlast,1\n");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].text("a"), "x, y");
  EXPECT_EQ(table.rows[0].text("b"), "say \"no\"\nnow");
  EXPECT_EQ(table.rows[1].line(), 4) << "lines of the file are counted";
}

TEST(Csv, SkipsEmptyLinesCarriageReturnsAndTheByteOrderMark) {
  const CsvTable table = read_csv("\xEF\xBB\xBF\r\na\r\n\r\n7\r\n");
  EXPECT_THAT(table.columns, ElementsAre("a"));
  EXPECT_EQ(table.header_line, 2);
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].text("a"), "7");
  EXPECT_EQ(table.rows[0].line(), 4);
}

TEST(Csv, RefusesWhatIsNoTable) {
  EXPECT_THROW(read_csv(""), ConfigError);
  EXPECT_THROW(read_csv("\n\n"), ConfigError);
  EXPECT_THROW(read_csv("id,\"value\n1,2\n"), ConfigError);
}

}  // namespace
}  // namespace tutti::core
