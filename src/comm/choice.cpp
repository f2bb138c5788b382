// The table's text and its rules.
#include "comm/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "comm/control.h"
#include "core/error.h"
#include "core/json.h"

namespace tutti::comm {
namespace {

using schedule::Algorithm;

constexpr std::size_t kInlineBytes = sizeof(OpDescriptor::payload);

Collective collective_of(schedule::Operation operation) {
  switch (operation) {
    case schedule::Operation::AllReduce:
      return Collective::AllReduce;
    case schedule::Operation::ReduceScatter:
      return Collective::ReduceScatter;
    case schedule::Operation::AllGather:
      return Collective::AllGather;
    case schedule::Operation::Broadcast:
      return Collective::Broadcast;
    case schedule::Operation::Reduce:
      return Collective::Reduce;
    case schedule::Operation::Scatter:
      return Collective::Scatter;
    case schedule::Operation::Gather:
      return Collective::Gather;
    case schedule::Operation::AllToAll:
      return Collective::AllToAll;
  }
  throw std::invalid_argument("no such operation");
}

core::ConfigError row_error(std::size_t index, std::string_view what) {
  return core::ConfigError(fmt::format("row {} of the table of algorithms: {}", index, what));
}

void check_row(const ChoiceTable::Row& row, std::size_t index) {
  const auto operation = schedule_operation(row.op);
  if (!schedule::supports(operation, row.algorithm)) {
    throw row_error(index, fmt::format("{} has no algorithm {}", schedule::name(operation),
                                       schedule::name(row.algorithm)));
  }
  if (row.ranks < 2) {
    throw row_error(index, fmt::format("{} ranks: at least 2 communicate", row.ranks));
  }
  if (row.algorithm == Algorithm::Inline && row.up_to_bytes > kInlineBytes) {
    throw row_error(index, fmt::format("inline up to {} bytes: a descriptor holds {}",
                                       row.up_to_bytes, kInlineBytes));
  }
}

ChoiceTable::Row parse_row(const core::Json& json, std::size_t index) {
  ChoiceTable::Row row;
  try {
    row.op = collective_of(schedule::parse_operation(json.at("op").get<std::string>()));
    row.algorithm = schedule::parse_algorithm(json.at("algorithm").get<std::string>());
    row.ranks = json.at("ranks").get<int>();
    row.up_to_bytes = json.at("up_to_bytes").get<std::size_t>();
    row.why = json.value("why", "edited by hand");
  } catch (const core::Json::exception& error) {
    throw row_error(
        index, fmt::format("it needs op, ranks, up_to_bytes and algorithm ({})", error.what()));
  } catch (const core::ConfigError& error) {
    throw row_error(index, error.what());
  }
  check_row(row, index);
  return row;
}

}  // namespace

schedule::Operation schedule_operation(Collective op) {
  switch (op) {
    case Collective::AllReduce:
      return schedule::Operation::AllReduce;
    case Collective::ReduceScatter:
      return schedule::Operation::ReduceScatter;
    case Collective::AllGather:
      return schedule::Operation::AllGather;
    case Collective::Broadcast:
      return schedule::Operation::Broadcast;
    case Collective::Reduce:
      return schedule::Operation::Reduce;
    case Collective::Scatter:
      return schedule::Operation::Scatter;
    case Collective::Gather:
      return schedule::Operation::Gather;
    case Collective::AllToAll:
      return schedule::Operation::AllToAll;
    case Collective::Barrier:
    case Collective::Send:
    case Collective::Recv:
      break;
  }
  throw std::invalid_argument(fmt::format("{} has no schedule", name(op)));
}

ChoiceTable ChoiceTable::parse(std::string_view text) {
  core::Json json;
  try {
    json = core::Json::parse(text);
  } catch (const core::Json::exception& error) {
    throw core::ConfigError(fmt::format("the table of algorithms is no JSON: {}", error.what()));
  }
  const auto rows = json.is_object() ? json.find("rows") : json.end();
  if (!json.is_object() || rows == json.end() || !rows->is_array()) {
    throw core::ConfigError("the table of algorithms needs a list \"rows\"");
  }
  ChoiceTable table;
  for (std::size_t i = 0; i < rows->size(); ++i) table.set(parse_row((*rows)[i], i));
  return table;
}

std::string ChoiceTable::json() const {
  core::Json rows = core::Json::array();
  for (const Row& row : rows_) {
    rows.push_back({{"op", schedule::name(schedule_operation(row.op))},
                    {"ranks", row.ranks},
                    {"up_to_bytes", row.up_to_bytes},
                    {"algorithm", schedule::name(row.algorithm)},
                    {"why", row.why}});
  }
  return core::Json{{"rows", rows}}.dump(1);
}

void ChoiceTable::set(const Row& row) {
  std::erase_if(rows_, [&](const Row& other) {
    return other.op == row.op && other.ranks == row.ranks && other.up_to_bytes == row.up_to_bytes;
  });
  const auto behind = std::find_if(rows_.begin(), rows_.end(), [&](const Row& other) {
    return other.up_to_bytes > row.up_to_bytes;
  });
  rows_.insert(behind, row);
}

Choice ChoiceTable::choose(Collective op, const GroupMap& map, std::size_t bytes) const {
  for (const Row& row : rows_) {
    if (row.op == op && row.ranks == map.ranks && bytes <= row.up_to_bytes) {
      return {row.algorithm, row.why};
    }
  }
  return model_choice(op, map, bytes);
}

namespace {

// A two-shot sends every rank's share across from every other node; a hierarchical one adds inside
// the nodes first (design and formulas: docs/design/0002).
bool worth_two_levels(const GroupMap& map, std::size_t bytes) {
  constexpr double kLinkBytesPerSecond = 20e9, kTwoSyncsSeconds = 2e-6;
  const int nodes = map.ranks / map.run;
  const double saved = 2.0 * (nodes - 1) * (map.run - 1) * static_cast<double>(bytes);
  return map.by_node && !map.flat() && saved / kLinkBytesPerSecond > kTwoSyncsSeconds;
}

}  // namespace

Choice model_choice(Collective op, const GroupMap& map, std::size_t bytes) {
  if (op != Collective::AllReduce) return {Algorithm::Direct, "one copy from where it lies"};
  if (bytes <= kInlineBytes) return {Algorithm::Inline, "fits into the descriptor: 1 sync"};
  // Each rank reads ranks x bytes, so the limit falls with the ranks.
  constexpr std::size_t kTwoRanks = 1024;
  const std::size_t limit =
      std::max<std::size_t>(kTwoRanks * 2 / static_cast<std::size_t>(map.ranks), 512);
  if (bytes <= limit) {
    return {Algorithm::OneShot, "every rank adds all copies itself: 1 sync instead of 2"};
  }
  if (worth_two_levels(map, bytes)) {
    return {Algorithm::Hierarchical, "the group spans NUMA nodes: sums cross, not values"};
  }
  return {Algorithm::Direct, "each rank adds its share: every byte is read and written once"};
}

std::optional<schedule::Algorithm> forced_algorithm(const CommOptions& options) {
  if (options.algorithm == "auto") return std::nullopt;
  return schedule::parse_algorithm(options.algorithm);
}

Choice choose(std::optional<schedule::Algorithm> forced, const ChoiceTable& table, Collective op,
              const GroupMap& map, std::size_t bytes) {
  if (!forced || !schedule::supports(schedule_operation(op), *forced)) {
    return table.choose(op, map, bytes);
  }
  if (*forced == Algorithm::Inline && bytes > kInlineBytes) {
    throw std::invalid_argument(fmt::format(
        "[comm] algorithm = \"inline\": {} of {} bytes do not fit into a descriptor, which holds "
        "{}. Use one-shot or auto.",
        name(op), bytes, kInlineBytes));
  }
  return {*forced, "forced by [comm] algorithm"};
}

}  // namespace tutti::comm
