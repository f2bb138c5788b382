// Names of planted faults.
#include "parallel/fault.h"

#include <array>
#include <utility>

namespace tutti::parallel {
namespace {

constexpr std::array<std::pair<std::string_view, Fault>, 11> kFaults = {{
    {"skip_bucket", Fault::SkipBucket},
    {"skip_copies", Fault::SkipCopies},
    {"swap_shard", Fault::SwapShard},
    {"double_norm", Fault::DoubleNorm},
    {"lose_tie", Fault::LoseTie},
    {"token_count", Fault::TokenCount},
    {"skip_partial", Fault::SkipPartial},
    {"bias_twice", Fault::BiasTwice},
    {"one_band", Fault::OneBand},
    {"vocab_edge", Fault::VocabEdge},
    {"own_logits", Fault::OwnLogits},
}};

}  // namespace

std::optional<Fault> fault_from_name(std::string_view name) {
  if (name.empty()) return Fault::None;
  for (const auto& [known, fault] : kFaults) {
    if (known == name) return fault;
  }
  return std::nullopt;
}

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const auto& [name, fault] : kFaults) names.emplace_back(name);
  return names;
}

}  // namespace tutti::parallel
