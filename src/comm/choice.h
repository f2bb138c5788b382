// Which algorithm an operation runs by: a table that all ranks share, and where its rows come from.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/addition_order.h"
#include "comm/collective.h"
#include "comm/options.h"
#include "schedule/collective.h"

namespace tutti::comm {

/// The operation's name in schedules. Throws std::invalid_argument for barrier, send and recv.
schedule::Operation schedule_operation(Collective op);

/// An algorithm and, in words, why it was taken. Every call makes one, so the words are borrowed:
/// from the table that chose, or for ever.
struct Choice {
  schedule::Algorithm algorithm = schedule::Algorithm::Direct;
  std::string_view why;
};

/// Rank 0's table, the same on every rank, so that all choose alike. What is measured or modelled
/// adds in the order of the group's map: such rows change times, never bits.
class ChoiceTable {
 public:
  /// Up to and including `up_to_bytes` (of the whole buffer of one rank).
  struct Row {
    Collective op = Collective::AllReduce;
    int ranks = 2;
    std::size_t up_to_bytes = 0;
    schedule::Algorithm algorithm = schedule::Algorithm::Direct;
    std::string why;  // "measured 0.8 us against 1.4 us", "edited by hand"
  };

  ChoiceTable() = default;
  /// Reads what json() wrote, perhaps edited. Throws core::ConfigError naming the row and the rule:
  /// a known operation and algorithm that fit each other, sizes in bytes.
  static ChoiceTable parse(std::string_view text);
  [[nodiscard]] std::string json() const;

  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  /// Replaces the row of the same operation, ranks and size.
  void set(const Row& row);

  /// The smallest row that reaches `bytes`; where none does, the rule of the cost model.
  [[nodiscard]] Choice choose(Collective op, const GroupMap& map, std::size_t bytes) const;

 private:
  std::vector<Row> rows_;  // ascending in size
};

/// What the model says without measurements: inline up to 24 bytes, one-shot while the copies of
/// all ranks are cheaper than a second sync, two-shot above; where a group spans NUMA nodes,
/// hierarchical as soon as the bytes that it keeps off the link between them are worth two syncs.
Choice model_choice(Collective op, const GroupMap& map, std::size_t bytes);

/// The algorithm that [comm] algorithm forces; nothing for auto. Throws core::ConfigError for a
/// name that is none.
std::optional<schedule::Algorithm> forced_algorithm(const CommOptions& options);

/// The forced one where the operation knows it, else by the table. Throws std::invalid_argument if
/// it cannot carry so many bytes (inline: 24).
Choice choose(std::optional<schedule::Algorithm> forced, const ChoiceTable& table, Collective op,
              const GroupMap& map, std::size_t bytes);

}  // namespace tutti::comm
