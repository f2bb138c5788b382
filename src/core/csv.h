// Comma-separated tables with a header line, read by column name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::core {

/// One data line. A column that the header lacks, or a cell that the line lacks, is empty.
class CsvRow {
 public:
  CsvRow(int line, std::map<std::string, std::string> cells)
      : line_(line), cells_(std::move(cells)) {}
  [[nodiscard]] int line() const { return line_; }  // in the file, from 1
  [[nodiscard]] std::string text(const std::string& column) const;

 private:
  int line_;
  std::map<std::string, std::string> cells_;
};

struct CsvTable {
  std::vector<std::string> columns;
  int header_line = 0;  // in the file, from 1
  std::vector<CsvRow> rows;
};

/// Fields may be quoted ("a, b"; "" is a quote) and may hold line breaks inside quotes. Line ends
/// may be CRLF; empty lines and a byte order mark are skipped. Throws ConfigError if there is
/// no header line or a quote is never closed.
CsvTable read_csv(std::string_view text);

}  // namespace tutti::core
