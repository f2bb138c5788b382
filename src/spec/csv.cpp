// One pass over the characters.
#include "spec/csv.h"

#include "core/error.h"

namespace tutti::spec {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  /// The next line's fields; false at the end.
  bool next(std::vector<std::string>& fields, int& line) {
    fields.clear();
    if (text_.empty()) return false;
    line = line_;
    std::string field;
    while (!text_.empty()) {
      const char c = take();
      if (c == '"') {
        quoted(field, line);
      } else if (c == ',') {
        fields.push_back(std::move(field));
        field.clear();
      } else if (c == '\n') {
        break;
      } else if (c != '\r') {
        field += c;
      }
    }
    fields.push_back(std::move(field));
    return true;
  }

 private:
  char take() {
    const char c = text_.front();
    text_.remove_prefix(1);
    line_ += c == '\n' ? 1 : 0;
    return c;
  }

  void quoted(std::string& field, int begin) {
    while (!text_.empty()) {
      const char c = take();
      if (c != '"') {
        field += c;
      } else if (text_.starts_with('"')) {
        field += take();
      } else {
        return;
      }
    }
    throw core::ConfigError(
        fmt::format("line {}: a quote is opened and never closed. Close it with \".", begin));
  }

  std::string_view text_;
  int line_ = 1;
};

}  // namespace

std::string CsvRow::text(const std::string& column) const {
  const auto found = cells_.find(column);
  return found == cells_.end() ? "" : found->second;
}

std::vector<CsvRow> read_csv(std::string_view text) {
  Reader reader(text);
  std::vector<std::string> header;
  std::vector<std::string> fields;
  std::vector<CsvRow> rows;
  int line = 0;
  while (reader.next(fields, line)) {
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (header.empty()) {
      header = fields;
      continue;
    }
    std::map<std::string, std::string> cells;
    for (std::size_t column = 0; column < header.size() && column < fields.size(); ++column) {
      cells[header[column]] = fields[column];
    }
    rows.emplace_back(line, std::move(cells));
  }
  if (header.empty()) {
    throw core::ConfigError("The table is empty: it needs a header line with column names.");
  }
  return rows;
}

}  // namespace tutti::spec
