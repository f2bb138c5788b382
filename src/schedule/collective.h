// Every collective by operation and algorithm: the names, what may be asked for, and the schedule
// that answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "schedule/collective_step.h"
#include "schedule/rotation.h"
#include "schedule/shares.h"

namespace tutti::schedule {

enum class Operation : std::uint8_t {
  AllReduce,      // every rank: the sum of all ranks' Data
  ReduceScatter,  // rank r: share r of the sum; the rest of its Data is left undefined
  AllGather,      // share r of every rank's Data = share r of rank r's
  Broadcast,      // every rank: the root's Data
  Reduce,         // the root: the sum; other ranks' Data is left undefined
  Scatter,        // rank r: share r of the root's Data
  Gather,         // the root: share r = share r of rank r's Data
  AllToAll,       // part r of rank q's Data = part q of rank r's Input
};

/// The one list of algorithm names: [comm] algorithm, --algorithm, `tutti schedule` and plan.json.
enum class Algorithm : std::uint8_t {
  Inline,   // one-shot whose slot is the descriptor itself
  OneShot,  // every rank reduces all slots itself: 1 sync
  Direct,   // two-shot: rank r reduces share r of all buffers and stores it into all: 2 syncs
  Staged,   // two-shot through two scratch halves, chunk by chunk: for memory that peers cannot see
  Ring,     // neighbours pass shares on
  Tree,     // two binary trees, half of the data each; scatter and gather: a binomial tree
  Halving,  // recursive halving, then doubling back
  Doubling,      // recursive doubling of whole buffers
  Chain,         // pipelined from rank to rank: the bits of plain rank order
  Hierarchical,  // inside groups, then between groups rail by rail, then inside again
};

std::string_view name(Operation operation);  // "all-reduce", ...
std::string_view name(Algorithm algorithm);  // "one-shot", ...
/// Throw core::ConfigError that names the nearest known word and lists all.
Operation parse_operation(std::string_view text);
Algorithm parse_algorithm(std::string_view text);
const std::vector<Operation>& all_operations();
const std::vector<Algorithm>& all_algorithms();

/// Whether the registry has a generator for the pair.
bool supports(Operation operation, Algorithm algorithm);

/// What is wanted. Every rank must pass the same.
struct CollectiveRequest {
  Operation operation = Operation::AllReduce;
  Algorithm algorithm = Algorithm::Ring;
  int ranks = 1;             // >= 1
  std::size_t elements = 0;  // of the whole array; all-to-all: of one rank's Input
  /// Uneven shares: reduce-scatter, all-gather, scatter, gather: one count per rank, whose sum
  /// replaces `elements`; all-to-all: ranks x ranks, from rank q to rank r at [q * ranks + r].
  /// Empty: as even as `align` allows.
  std::vector<std::size_t> counts = {};
  int root = 0;   // broadcast, reduce, scatter, gather
  int group = 0;  // hierarchical: consecutive ranks per group; must divide `ranks`
  Algorithm between =
      Algorithm::Ring;    // hierarchical all-reduce: ring, halving, doubling, tree, chain or direct
  int chunks = 0;         // tree, chain, staged: pieces that follow each other; 0: by size
  std::size_t align = 1;  // even shares begin at multiples of this many elements
};

/// A collective as data. Copies share their parts; the functions may be called from any thread.
struct CollectiveSchedule {
  CollectiveRequest request;
  int slots = 1;                       // messages of one ordered pair that may wait to be received
  std::size_t scratch = 0;             // elements of Space::Scratch that each rank needs
  Shares shares;                       // of Data, by rank; empty for all-to-all
  std::shared_ptr<const Parts> parts;  // all-to-all: who owes whom which elements
  /// The list of one rank, made without making the others'. Empty if ranks == 1 (all-to-all: the
  /// own part is copied).
  std::function<std::vector<CollectiveStep>(int rank)> list;
  /// Set where every rank's list is rank 0's with peers and shares turned by its rank; `list`
  /// expands exactly this.
  std::optional<Rotation> rotation;

  /// Elements that `rank` must bring as Data and as Input.
  [[nodiscard]] std::size_t data_elements(int rank) const;
  [[nodiscard]] std::size_t input_elements(int rank) const;
  [[nodiscard]] StepLists all_lists() const;
};

/// Everything that makes a request impossible, each with the cure; empty if generate() will answer.
std::vector<core::Problem> check(const CollectiveRequest& request);

/// Throws std::invalid_argument with the texts of check() if there are any.
CollectiveSchedule generate(const CollectiveRequest& request);

/// The same schedule with other lists (a user's own, or a broken one in a test).
CollectiveSchedule with_lists(CollectiveSchedule schedule, StepLists lists);

/// Pieces that an algorithm with chunks cuts its data into: `asked`, or by size if that is 0. 1 <=
/// result <= 64 by size.
int chunks_for(std::size_t elements, int asked);

}  // namespace tutti::schedule
