// Published memory figures, row by row, and what a damaged table does.
#include "spec/published.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "core/file.h"

namespace tutti::spec {
namespace {

using ::testing::HasSubstr;

const PublishedAnswer& published() {
  static const PublishedAnswer answer =
      answer_memory_rows(core::read_file(TUTTI_PUBLISHED "/memory.csv"));
  return answer;
}

// Two readings contradict their neighbours (the same layout with twice the micro-batch reads 9 GB
// less; the same layout was read as 44 and as 38 GB), and one layout ran out of memory with 8 %
// more layers than one that peaked at 60 of 80 GB. tests/published/README.md has the figures.
const std::set<std::string> kContradictory = {"mem-bloom-prequel-021", "mem-bloom-prequel-043"};
const std::set<std::string> kUnexplained = {"mem-bloom-prequel-064"};

TEST(Published, FormulasAreExactToTheDigitsPrinted) {
  int rows = 0;
  for (const PublishedRow& row : published().rows) {
    if (row.kind != "closed_form" && row.kind != "published_formula") continue;
    EXPECT_LE(std::abs(row.error), 0.001) << row.id << " " << row.exact;
    ++rows;
  }
  EXPECT_EQ(rows, 75);
}

TEST(Published, FiguresReadOffABarAgreeToAFifthOfAPoint) {
  int rows = 0;
  for (const PublishedRow& row : published().rows) {
    if (row.kind != "read_off_figure") continue;
    EXPECT_LE(std::abs(row.predicted - row.published), 0.2) << row.id;
    ++rows;
  }
  EXPECT_EQ(rows, 12);
}

TEST(Published, MeasuredRowsAgreeToThreePercentOnAverageAndTenAtWorst) {
  int rows = 0;
  double sum = 0;
  for (const PublishedRow& row : published().rows) {
    if (row.kind != "measured") continue;
    if (!kContradictory.contains(row.id)) {
      EXPECT_LE(std::abs(row.error), 0.10) << row.id;
    }
    sum += std::abs(row.error);
    ++rows;
  }
  EXPECT_GE(rows, 186);
  EXPECT_LE(sum / rows, 0.03);
}

TEST(Published, WhatRanOutOfMemoryDoesNotFitAndTheRestDoes) {
  int oom = 0;
  for (const PublishedRow& row : published().rows) {
    if (!row.fits) continue;
    if (row.kind == "oom" && !kUnexplained.contains(row.id)) {
      EXPECT_FALSE(*row.fits) << row.id;
    } else if (row.kind == "measured") {
      EXPECT_TRUE(*row.fits) << row.id;
    }
    oom += row.kind == "oom" ? 1 : 0;
  }
  EXPECT_EQ(oom, 6);
}

TEST(Published, SaysWhyARowIsSkipped) {
  for (const SkippedRow& row : published().skipped) {
    EXPECT_THAT(row.why, HasSubstr("empty")) << row.id;
  }
  EXPECT_EQ(published().skipped.size(), 12U);
}

constexpr const char* kHeader =
    "id,kind,quantity,value,unit,layers,hidden,heads,seq,tp,micro_batch,recompute,zero_stage\n";

TEST(Published, ADamagedCellSkipsItsRowOnly) {
  const PublishedAnswer answer =
      answer_memory_rows(std::string(kHeader) +
                         "a,measured,peak_allocated,many,GiB,4,512,8,128,1,1,none,0\n"
                         "b,measured,peak_allocated,1,GiB,-4,512,8,128,1,1,none,0\n"
                         "c,measured,peak_allocated,1,parsec,4,512,8,128,1,1,none,0\n"
                         "d,measured,weight,1,GiB,4,512,8,128,1,1,none,0\n"
                         "e,measured,peak_allocated,1,GiB,4,512,8,128,1,1,some,0\n"
                         "f,measured,peak_allocated,1,GiB,4,512\n"
                         "g,measured,peak_allocated,1,GiB,4,512,8,128,1,1,none,0\r\n");
  ASSERT_EQ(answer.rows.size(), 1U);
  EXPECT_EQ(answer.rows[0].id, "g");
  ASSERT_EQ(answer.skipped.size(), 6U);
  const char* reasons[] = {"value = \"many\"",      "layers = \"-4\"",      "unit = \"parsec\"",
                           "quantity = \"weight\"", "recompute = \"some\"", "micro_batch is empty"};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_THAT(answer.skipped[i].why, HasSubstr(reasons[i]));
}

TEST(Published, ListsTheDefaultsOfColumnsThatTheTableLacks) {
  const PublishedAnswer answer = answer_memory_rows(
      "id,kind,quantity,value,unit,layers,hidden,seq,micro_batch\n"
      "a,measured,peak_allocated,1,GiB,4,512,128,1\n");
  ASSERT_EQ(answer.rows.size(), 1U);
  for (const char* column : {"tp", "pp", "dp", "heads", "vocab", "recompute", "precision"}) {
    EXPECT_TRUE(answer.assumed.contains(column)) << column;
  }
}

TEST(Published, AnAbsurdSizeSkipsTheRow) {
  const PublishedAnswer answer = answer_memory_rows(
      std::string(kHeader) +
      "a,measured,peak_allocated,1,GiB,1000000000,1000000000000,8,128,1,1,none,0\n");
  ASSERT_EQ(answer.skipped.size(), 1U);
  EXPECT_THAT(answer.skipped[0].why, HasSubstr("64 bits"));
}

TEST(Published, AnswersDoNotDependOnNames) {
  std::string csv = core::read_file(TUTTI_PUBLISHED "/memory.csv");
  const PublishedAnswer before = answer_memory_rows(csv);
  for (std::string word : {"bloom", "simumax", "torchtitan", "korthikanti", "GPT", "Llama"}) {
    for (std::size_t at = csv.find(word); at != std::string::npos; at = csv.find(word)) {
      csv.replace(at, word.size(), "x");
    }
  }
  const PublishedAnswer after = answer_memory_rows(csv);
  ASSERT_EQ(before.rows.size(), after.rows.size());
  for (std::size_t i = 0; i < before.rows.size(); ++i) {
    EXPECT_EQ(before.rows[i].predicted, after.rows[i].predicted) << before.rows[i].id;
  }
}

TEST(Published, RefusesWhatIsNoTable) {
  EXPECT_THROW(answer_memory_rows(""), core::ConfigError);
  EXPECT_THROW(answer_memory_rows("id,\"value\n"), core::ConfigError);
}

}  // namespace
}  // namespace tutti::spec
