// One rank of the benchmark, and the parent that starts them and puts their times together.
#include "cli/bench_run.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "cli/bench_operation.h"
#include "comm/shared_memory.h"
#include "comm/testing.h"
#include "comm/ticks.h"
#include "core/clock.h"
#include "core/error.h"

namespace tutti::cli {
namespace {

constexpr int kMostIterations = 2000;
constexpr int kWarmUp = 5;
constexpr std::uint64_t kGigaTick = 1'000'000'000;
enum Kind { kOurs, kCopy, kLocalCopy, kBarrier, kKinds };

// What the ranks share besides the engine's memory: flags of a bare barrier, times, results.
struct SharedArea {
  struct alignas(128) Line {
    std::atomic<std::uint64_t> arrived;
    std::atomic<std::uint64_t> wrong;
  };
  std::atomic<int> go_on;  // rank 0's word on whether there is another round

  static std::size_t bytes(int ranks, std::size_t largest) {
    const auto n = static_cast<std::size_t>(ranks);
    return 4096 + n * (sizeof(Line) + kKinds * kMostIterations * sizeof(float) + largest) +
           4096 * n;
  }
};

class Shared {
 public:
  Shared(std::byte* memory, int ranks, std::size_t largest)
      : memory_(memory), ranks_(ranks), largest_((largest + 4095) / 4096 * 4096) {}
  [[nodiscard]] SharedArea& area() const { return *reinterpret_cast<SharedArea*>(memory_); }
  [[nodiscard]] SharedArea::Line& line(int rank) const {
    return reinterpret_cast<SharedArea::Line*>(memory_ + 4096)[rank];
  }
  [[nodiscard]] float* times(int rank, Kind kind) const {
    std::byte* base = memory_ + 4096 + sizeof(SharedArea::Line) * static_cast<std::size_t>(ranks_);
    return reinterpret_cast<float*>(base) + (rank * kKinds + kind) * kMostIterations;
  }
  /// Memory that all ranks map: what one has rewritten, its neighbour copies.
  [[nodiscard]] std::byte* data(int rank) const {
    auto* end = reinterpret_cast<std::byte*>(times(ranks_, kOurs));
    const auto at = reinterpret_cast<std::uintptr_t>(end);
    return end + (4096 - at % 4096) % 4096 + static_cast<std::size_t>(rank) * largest_;
  }
  /// Every rank has come: one store and one load per peer. Yields when it takes long, for there may
  /// be more ranks than cores; gives up after a minute, when a rank must have died.
  void barrier(int rank, std::uint64_t round) const {
    line(rank).arrived.store(round);
    std::uint64_t spins = 0;
    const core::Deadline deadline(core::Seconds(60));
    for (int r = 0; r < ranks_; ++r) {
      while (line(r).arrived.load() < round) {
        if (++spins > 2000) ::sched_yield();
        if (spins % 100'000 == 0 && deadline.passed()) throw core::RunError("a rank is gone");
        comm::pause();
      }
    }
  }

 private:
  std::byte* memory_;
  int ranks_;
  std::size_t largest_;
};

void pin(int rank, int ranks) {
  cpu_set_t mask, one;
  CPU_ZERO(&one);
  if (::sched_getaffinity(0, sizeof(mask), &mask) != 0 || CPU_COUNT(&mask) < ranks) return;
  int seen = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask) && seen++ == rank) CPU_SET(core, &one);
  }
  ::sched_setaffinity(0, sizeof(one), &one);
}

// Memory that begins where the engine's does: copies between other offsets inside a page are slow
// on some processors ("rep movsb" on Zen 3), which would flatter whoever is compared with them.
class Page {
 public:
  explicit Page(std::size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes / 4096 + 1) * 4096))),
        owner_(data_, &std::free) {
    std::memset(data_, 1, (bytes / 4096 + 1) * 4096);
  }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::unique_ptr<std::byte, void (*)(void*)> owner_;
};

class Rank {
 public:
  Rank(comm::World& world, const BenchOptions& options, const MakeOperation& make,
       const Shared& shared)
      : world_(world), options_(options), make_(make), shared_(shared), rank_(world.rank()) {
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    group_ = world.group("bench", all);
  }

  [[nodiscard]] const comm::Communicator& group() const { return group_; }

  // Measures one row; every rank leaves its times in the shared memory. Returns the iterations.
  int measure(comm::Collective op, std::size_t bytes) {
    const std::unique_ptr<BenchOperation> made = make_(group_, op, bytes, options_);
    BenchOperation& operation = *made;
    shared_.line(rank_).wrong.store(operation.verify());
    const Page warm(bytes), local(bytes);
    const std::byte* theirs = shared_.data((rank_ + 1) % world_.size());
    std::byte* mine = shared_.data(rank_);
    const auto fill = [bytes](std::byte* p) { std::memset(p, 1, bytes); };
    for (int i = 0; i < kWarmUp; ++i) {
      operation.rewrite();
      operation.run();
    }
    const core::Deadline deadline(core::Seconds(options_.seconds_per_row));
    int i = 0;
    for (; i < kMostIterations; ++i) {
      time(
          i, kOurs, [&] { operation.rewrite(); }, [&] { operation.run(); });
      time(
          i, kCopy, [&] { fill(mine); }, [&] { std::memcpy(warm.data(), theirs, bytes); });
      time(
          i, kLocalCopy, [&] { fill(local.data()); },
          [&] { std::memcpy(warm.data(), local.data(), bytes); });
      time(
          i, kBarrier, [] {}, [&] { shared_.barrier(rank_, ++round_); });
      if (rank_ == 0) shared_.area().go_on.store(i < 10 || !deadline.passed() ? 1 : 0);
      shared_.barrier(rank_, ++round_);
      const bool more = shared_.area().go_on.load() != 0;
      shared_.barrier(rank_, ++round_);
      if (!more) return i + 1;
    }
    return i;
  }

 private:
  template <class Prepare, class Run>
  void time(int i, Kind kind, Prepare&& prepare, Run&& run) {
    prepare();
    shared_.barrier(rank_, ++round_);
    const std::uint64_t begin = comm::ticks();
    run();
    const std::uint64_t end = comm::ticks();
    shared_.times(rank_, kind)[i] = static_cast<float>(end - begin);
    shared_.barrier(rank_, ++round_);
  }

  comm::World& world_;
  const BenchOptions& options_;
  const MakeOperation& make_;
  Shared shared_;
  int rank_;
  std::uint64_t round_ = 0;
  comm::Communicator group_;
};

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::vector<double> slowest(const Shared& shared, Kind kind, int ranks, int iterations,
                            double us_per_tick) {
  std::vector<double> result(static_cast<std::size_t>(iterations));
  for (int i = 0; i < iterations; ++i) {
    for (int r = 0; r < ranks; ++r) {
      auto& worst = result[static_cast<std::size_t>(i)];
      worst = std::max(worst, static_cast<double>(shared.times(r, kind)[i]) * us_per_tick);
    }
  }
  return result;
}

BenchRow summarise(const Shared& shared, const BenchOptions& options, comm::Collective op,
                   std::size_t bytes, int iterations, double us_per_tick) {
  BenchRow row;
  row.op = op;
  row.api.set(options.api);
  row.bytes = bytes;
  row.count = bytes / comm::element_bytes(options.dtype);
  row.iterations = iterations;
  const auto all = [&](Kind kind) {
    return slowest(shared, kind, options.ranks, iterations, us_per_tick);
  };
  const std::vector<double> ours = all(kOurs), copies = all(kCopy);
  row.p10_us = percentile(ours, 0.1);
  row.p50_us = percentile(ours, 0.5);
  row.p95_us = percentile(ours, 0.95);
  row.max_us = percentile(ours, 1.0);
  row.memcpy_us = percentile(copies, 0.5);
  row.memcpy_local_us = percentile(all(kLocalCopy), 0.5);
  row.barrier_us = percentile(all(kBarrier), 0.5);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / copies[i]);
  row.ratio = percentile(ratios, 0.5);
  row.algbw_GBps = row.p50_us > 0 ? static_cast<double>(bytes) / row.p50_us / 1e3 : 0;
  row.busbw_GBps = row.algbw_GBps * bus_factor(op, options.ranks);
  for (int r = 0; r < options.ranks; ++r) row.wrong += shared.line(r).wrong.load();
  return row;
}

// A barrier has no data, so it has one row.
std::vector<std::size_t> sizes_of(comm::Collective op, const BenchOptions& options) {
  if (op == comm::Collective::Barrier) return {0};
  return options.sizes;
}

void name_choice(const comm::Communicator& group, BenchRow& row) {
  if (row.op == comm::Collective::Barrier || row.op == comm::Collective::Send) return;
  const comm::Choice choice = group.explain(row.op, row.bytes);
  row.algorithm.set(schedule::name(choice.algorithm));
  row.why.set(choice.why);
}

}  // namespace

std::string op_name(comm::Collective op) {
  return op == comm::Collective::Send ? "send_recv" : std::string(comm::name(op));
}

double bus_factor(comm::Collective op, int ranks) {
  const double n = ranks;
  switch (op) {
    case comm::Collective::AllReduce:
      return 2 * (n - 1) / n;
    case comm::Collective::ReduceScatter:
    case comm::Collective::AllGather:
    case comm::Collective::AllToAll:
    case comm::Collective::Scatter:
    case comm::Collective::Gather:
      return (n - 1) / n;
    default:
      return 1;
  }
}

std::vector<BenchRow> bench_collectives(const BenchOptions& options, const MakeOperation& make) {
  const std::size_t largest = std::max<std::size_t>(options.sizes.back(), 64);
  const std::size_t bytes = SharedArea::bytes(options.ranks, (largest + 4095) / 4096 * 4096);
  comm::MappingCache cache;
  const core::Fd fd = comm::create_shared_memory("tutti-bench", bytes);
  const auto memory = cache.map(fd.get(), bytes);
  const Shared shared(memory->data(), options.ranks, largest);
  const comm::TickRate rate;
  std::size_t num_rows = 0;
  for (const comm::Collective op : options.ops) num_rows += sizes_of(op, options).size();
  const core::Fd results =
      comm::create_shared_memory("tutti-bench-rows", num_rows * sizeof(BenchRow));
  const auto kept = cache.map(results.get(), num_rows * sizeof(BenchRow));
  auto* const rows = reinterpret_cast<BenchRow*>(kept->data());
  comm::testing::SharedStore store;
  comm::WireUpOptions wire_up;
  wire_up.comm = options.comm;
  wire_up.run_id = "bench";
  auto ranks = comm::testing::start_processes(
      store, options.ranks,
      [&](comm::World& world, int rank) {
        pin(rank, options.ranks);
        Rank bench(world, options, make, shared);
        std::size_t index = 0;
        for (const comm::Collective op : options.ops) {
          for (const std::size_t size : sizes_of(op, options)) {
            const int done = bench.measure(op, size);
            if (rank == 0) {
              const double us = rate.seconds_since(comm::ticks() - kGigaTick) * 1e6 / kGigaTick;
              rows[index] = summarise(shared, options, op, size, done, us);
              name_choice(bench.group(), rows[index]);
            }
            ++index;
          }
        }
      },
      wire_up);
  std::string failure;
  const core::Deadline deadline(
      core::Seconds(60 + static_cast<double>(num_rows) * (options.seconds_per_row * 2 + 10)));
  for (auto& rank : ranks) {
    const std::string error = rank.result(deadline);
    if (failure.empty()) failure = error;
  }
  if (!failure.empty()) throw core::RunError(failure);
  return {rows, rows + num_rows};
}

}  // namespace tutti::cli
