// Published memory figures predicted row by row: the body of `tutti memory --rows`. What a row says
// decides; its name and its source do not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace tutti::spec {

struct PublishedRow {
  std::string id, source_key, kind, quantity, unit;
  double published = 0;
  /// In `unit`. Closed forms are given to the decimals the table prints, `exact` in full.
  double predicted = 0;
  double exact = 0;
  double error = 0;  // predicted / published - 1; 0 where both are 0
  std::optional<bool>
      fits;  // into the device the row names, if the figure is a rank's whole memory
};

struct SkippedRow {
  std::string id, why;
};

struct PublishedAnswer {
  std::vector<PublishedRow> rows;
  std::vector<SkippedRow> skipped;
  std::map<std::string, std::string> assumed;  // column -> what stands in for its empty cells
};

/// A row that cannot be answered is skipped with the reason; neutral defaults for empty cells are
/// listed. Throws core::ConfigError if the text is no table at all.
PublishedAnswer answer_memory_rows(std::string_view csv);

/// A line per row, the skipped ones with the reason, the defaults.
std::string describe(const PublishedAnswer& answer);
core::Json to_json(const PublishedAnswer& answer);

}  // namespace tutti::spec
