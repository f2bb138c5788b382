// Measuring collectives: forked ranks, a memory they share, verified before timed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "comm/collective.h"
#include "comm/communicator.h"
#include "comm/options.h"

namespace tutti::cli {

class BenchOperation;
struct BenchOptions;

/// Makes an operation of the API that is measured.
using MakeOperation = std::function<std::unique_ptr<BenchOperation>(
    const comm::Communicator& group, comm::Collective op, std::size_t bytes,
    const BenchOptions& options)>;

struct BenchOptions {
  std::string api = "comm";  // the name in the rows
  std::vector<comm::Collective> ops;
  std::vector<std::size_t> sizes;  // bytes of the whole buffer, ascending
  int ranks = 2;
  comm::DType dtype = comm::DType::Float32;
  comm::Reduce reduce = comm::ReduceOp::Sum;
  bool registered = true;   // arena memory; else the heap
  bool statistics = false;  // reductions also return sums of squares
  comm::CommOptions comm;
  double seconds_per_row = 0.5;  // measuring stops there, or after 2,000 iterations
};

/// A short text in memory that processes share.
template <std::size_t N>
struct ShortText {
  std::array<char, N> chars = {};
  void set(std::string_view text) {
    const std::size_t length = std::min(text.size(), N - 1);
    std::copy_n(text.data(), length, chars.data());
    chars[length] = '\0';
  }
  [[nodiscard]] const char* get() const { return chars.data(); }
};

/// One size of one operation. Times are the slowest rank's of each iteration, in microseconds.
/// Ranks write it into memory that they share with the parent.
struct BenchRow {
  comm::Collective op = comm::Collective::AllReduce;
  ShortText<16> api;  // comm, group, or a peer's name
  ShortText<16> algorithm;
  ShortText<96> why;
  std::size_t bytes = 0, count = 0;
  double p10_us = 0, p50_us = 0, p95_us = 0, max_us = 0;
  double memcpy_us = 0;                   // every rank copies what its peer has just rewritten
  double memcpy_local_us = 0;             // what it has rewritten itself
  double barrier_us = 0;                  // a flag per process and nothing else
  double ratio = 0;                       // to memcpy: the median over rounds of time / memcpy
  double algbw_GBps = 0, busbw_GBps = 0;  // as nccl-tests define them, from p50
  std::size_t wrong = 0;                  // elements, over all ranks
  int iterations = 0;
};
static_assert(std::is_trivially_copyable_v<BenchRow>);

/// "all_reduce", ..., "send_recv".
std::string op_name(comm::Collective op);

/// Forks the ranks, each on a core of its own where there are enough, and measures every size of
/// every operation: in each round the operation, both copies and the barrier, one after the other.
/// Throws core::RunError with the text of the first rank that failed.
std::vector<BenchRow> bench_collectives(const BenchOptions& options, const MakeOperation& make);

/// Factor from algbw to busbw: what share of the bytes crosses between ranks.
double bus_factor(comm::Collective op, int ranks);

}  // namespace tutti::cli
