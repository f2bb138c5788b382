// One collective of one size, ready to be run again and again by a rank of the benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cli/bench_run.h"
#include "comm/communicator.h"

namespace tutti::cli {

/// Buffers, values and their check; who calls the collective on them is up to the API that is
/// measured. `bytes` is the whole buffer: what a rank brings to an all-reduce, what it has after an
/// all-gather. Reductions are in place, the rest is out of place, as gradients and shards are used.
class BenchOperation {
 public:
  BenchOperation(const comm::Communicator& group, comm::Collective op, std::size_t bytes,
                 const BenchOptions& options);
  virtual ~BenchOperation() = default;
  BenchOperation(const BenchOperation&) = delete;
  BenchOperation& operator=(const BenchOperation&) = delete;

  /// Rewrites what the rank brings: the data is in its own cache then, as gradients are.
  void rewrite();
  virtual void run() = 0;
  /// Runs once on values whose result is known exactly; the number of wrong elements.
  std::size_t verify();

 protected:
  [[nodiscard]] const BenchOptions& options() const { return options_; }
  [[nodiscard]] std::size_t share() const { return static_cast<std::size_t>(counts_[me_]); }
  /// Where statistics are wanted, what they are filled into; else null.
  [[nodiscard]] comm::ReduceStats* statistics();

  comm::Communicator group_;
  comm::Collective op_;
  std::size_t count_;                 // elements of the whole buffer
  std::vector<std::int64_t> counts_;  // even parts; the last takes the rest
  std::vector<std::int64_t> back_;    // what comes from each rank in all_to_all
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;

 private:
  std::byte* memory(std::shared_ptr<std::byte>& owner, std::size_t bytes);
  void fill(int rank, std::byte* to, std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t differences(const std::byte* got, int rank, std::size_t first,
                                        std::size_t count) const;
  [[nodiscard]] std::size_t check_sum(const std::byte* got, std::size_t first,
                                      std::size_t count) const;
  [[nodiscard]] std::size_t begin_of(int rank) const;

  const BenchOptions& options_;
  std::size_t me_;
  comm::ReduceStats stats_;
  std::vector<std::int64_t> block_starts_;
  std::shared_ptr<std::byte> in_owner_, out_owner_;
};

/// Calls the engine itself.
std::unique_ptr<BenchOperation> make_comm_operation(const comm::Communicator& group,
                                                    comm::Collective op, std::size_t bytes,
                                                    const BenchOptions& options);

}  // namespace tutti::cli
