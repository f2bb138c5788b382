// Answers to a table as text and as JSON.
#include "core/error.h"
#include "spec/published.h"

namespace tutti::spec {

std::string describe(const PublishedAnswer& answer) {
  std::string text;
  for (const PublishedRow& row : answer.rows) {
    text += fmt::format("{:32} {:36} {:>14.6g} {:>14.6g} {:8} {:+7.2f} %\n", row.id, row.quantity,
                        row.published, row.predicted, row.unit, 100 * row.error);
  }
  for (const SkippedRow& row : answer.skipped) {
    text += fmt::format("{:32} skipped: {}\n", row.id, row.why);
  }
  for (const auto& [column, value] : answer.assumed) {
    text += fmt::format("assumed: {}: {}\n", column, value);
  }
  return text;
}

core::Json to_json(const PublishedAnswer& answer) {
  core::Json json = {{"rows", core::Json::array()}, {"skipped", core::Json::array()}};
  for (const PublishedRow& row : answer.rows) {
    json["rows"].push_back({{"id", row.id},
                            {"source_key", row.source_key},
                            {"kind", row.kind},
                            {"quantity", row.quantity},
                            {"published", row.published},
                            {"predicted", row.predicted},
                            {"exact", row.exact},
                            {"unit", row.unit},
                            {"error", row.error},
                            {"fits", row.fits ? core::Json(*row.fits) : core::Json(nullptr)}});
  }
  for (const SkippedRow& row : answer.skipped) {
    json["skipped"].push_back({{"id", row.id}, {"why", row.why}});
  }
  json["assumed"] = answer.assumed;
  return json;
}

}  // namespace tutti::spec
