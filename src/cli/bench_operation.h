// One collective of one size, ready to be run again and again by a rank of the benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/bench_run.h"
#include "comm/communicator.h"

namespace tutti::cli {

/// `bytes` is the whole buffer: what a rank brings to an all-reduce, what it has after an
/// all-gather. Reductions are in place, the rest is out of place, as gradients and shards are used.
class BenchOperation {
 public:
  BenchOperation(const comm::Communicator& group, comm::Collective op, std::size_t bytes,
                 const BenchOptions& options);

  /// Rewrites what the rank brings: the data is in its own cache then, as gradients are.
  void rewrite();
  void run();
  /// Runs once on values whose result is known exactly; the number of wrong elements.
  std::size_t verify();

 private:
  std::byte* memory(std::shared_ptr<std::byte>& owner, std::size_t bytes);
  void fill(int rank, std::byte* to, std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t differences(const std::byte* got, int rank, std::size_t first,
                                        std::size_t count) const;
  [[nodiscard]] std::size_t check_sum(const std::byte* got, std::size_t first,
                                      std::size_t count) const;
  [[nodiscard]] std::size_t begin_of(int rank) const;

  comm::Communicator group_;
  comm::Collective op_;
  const BenchOptions& options_;
  std::size_t count_;
  std::vector<std::int64_t> counts_;  // even parts; the last takes the rest
  std::shared_ptr<std::byte> in_owner_, out_owner_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
};

}  // namespace tutti::cli
