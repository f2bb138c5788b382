// One row of a table of memory figures as a model, a layout and a runtime.
#pragma once

#include <map>
#include <stdexcept>
#include <string>

#include "core/csv.h"
#include "spec/memory.h"

namespace tutti::spec {

/// Why a row cannot be answered; what() is the sentence.
class SkipRow : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads cells, notes every default it had to take.
class RowReader {
 public:
  RowReader(const core::CsvRow& row, std::map<std::string, std::string>& assumed)
      : row_(row), assumed_(assumed) {}

  [[nodiscard]] std::string text(const std::string& column) const { return row_.text(column); }
  [[nodiscard]] bool has(const std::string& column) const { return !row_.text(column).empty(); }
  /// A number of at least 0. Throws SkipRow if the cell is empty or no such number; `why` says what
  /// needs it.
  [[nodiscard]] double number(const std::string& column, const std::string& why) const;
  /// A whole number of at least 1; the same.
  [[nodiscard]] std::int64_t whole(const std::string& column, const std::string& why) const;
  /// The same with a default that is noted.
  std::int64_t whole_or(const std::string& column, std::int64_t fallback);
  std::string text_or(const std::string& column, const std::string& fallback);
  void assume(const std::string& column, const std::string& value) { assumed_[column] = value; }

 private:
  const core::CsvRow& row_;
  std::map<std::string, std::string>& assumed_;
};

/// Sizes of the row's model. `needs`: what asks for them, for the reason of a skipped row.
DecoderSizes sizes_of_row(RowReader& row, const std::string& needs);

/// The row's split. micro_batch and seq must be there if `with_activations`.
MemoryLayout layout_of_row(RowReader& row, const DecoderSizes& sizes, bool with_activations);

/// How the row's trainer holds bytes, as far as its columns tell.
Runtime runtime_of_row(RowReader& row, const DecoderSizes& sizes, const MemoryLayout& layout);

}  // namespace tutti::spec
