// Memory terms for people (a table and a bar per rank) and machines (JSON).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "spec/cures.h"

namespace tutti::spec {

/// Ranks [first, last] of one pipeline stage: they hold the same.
struct RankGroup {
  std::int64_t first = 0;
  std::int64_t last = 0;
  MemoryTerms terms;
};

struct MemoryReport {
  std::vector<RankGroup> ranks;
  std::optional<Count> limit;  // bytes per rank; nothing: not known
  std::string limit_name;      // "[run] memory_limit", "this host's memory, shared by 2 ranks"
  bool fits = true;
  bool keep_gathered = false;  // ZeRO 3 gathers once a step: there is room for it
  std::vector<Cure> cures;
  std::optional<Cure> replicas;  // instead of `cures`
  bool may_grow = true;  // cures were looked for in every setting, not only in those a run obeys
};

/// Whether every rank is within the limit, the fullest group's terms, and the cures if not.
const RankGroup& fullest(const MemoryReport& report);

/// The table, a bar per group and the verdict.
std::string describe(const MemoryReport& report);

/// The verdict alone: which rank needs how much of what, the limit, and the cures in order. The
/// same text refuses a run before it starts.
std::string verdict(const MemoryReport& report);

core::Json to_json(const MemoryReport& report);

}  // namespace tutti::spec
