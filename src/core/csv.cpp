// One pass over the characters.
#include "core/csv.h"

#include "core/error.h"

namespace tutti::core {
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
    throw ConfigError(
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

CsvTable read_csv(std::string_view text) {
  Reader reader(text);
  CsvTable table;
  std::vector<std::string> fields;
  int line = 0;
  while (reader.next(fields, line)) {
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (table.columns.empty()) {
      table.columns = fields;
      table.header_line = line;
      continue;
    }
    std::map<std::string, std::string> cells;
    for (std::size_t i = 0; i < table.columns.size() && i < fields.size(); ++i)
      cells[table.columns[i]] = fields[i];
    table.rows.emplace_back(line, std::move(cells));
  }
  if (table.columns.empty())
    throw ConfigError("The table is empty: it needs a header line with column names.");
  return table;
}

}  // namespace tutti::core
