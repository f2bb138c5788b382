// How fast two ranks add their buffers, beside how fast they copy them. Prints a Markdown table.
//
// Two processes on two cores, fp32 sum in place, arena memory. Before every operation each rank
// rewrites its buffer. memcpy: both ranks at once copy what their peer has just rewritten into a
// warm buffer of their own; memcpy (local): what they rewrote themselves. A time is the slower
// rank's; the columns are the 10th percentile, the ratio the median of the rounds' ratios. Results
// are verified before anything is timed.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/testing.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/units.h"

namespace {

using tutti::comm::Communicator;
using tutti::comm::DType;
using tutti::comm::ReduceOp;

void pin(int rank) {
  cpu_set_t mask, one;
  CPU_ZERO(&one);
  if (::sched_getaffinity(0, sizeof(mask), &mask) != 0) return;
  int seen = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask) && seen++ == rank) CPU_SET(core, &one);
  }
  if (CPU_COUNT(&one) == 1) ::sched_setaffinity(0, sizeof(one), &one);
}

std::string cpu_field(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string last_level_cache() {
  std::string size = "unknown", line;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    if (std::getline(file, line)) size = line;
  }
  return size;
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// One rank's memory and the way to time something on both ranks at once.
class Bench {
 public:
  Bench(tutti::comm::World& world, std::size_t bytes)
      : group_(world.group("bench", {0, 1})),
        bytes_(bytes),
        io_(group_.allocate(bytes)),
        own_(bytes),
        local_(bytes) {}

  void verify() {
    float* x = floats();
    const std::size_t n = bytes_ / sizeof(float);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>((i + group_.rank()) % 1000);
    group_.all_reduce({x, n}, ReduceOp::Sum, "verify").wait();
    for (std::size_t i = 0; i < n; ++i) {
      if (x[i] != static_cast<float>(i % 1000 + (i + 1) % 1000)) {
        throw std::runtime_error(fmt::format("wrong sum at element {} of {}", i, n));
      }
    }
  }

  double all_reduce() {
    return time([this] { std::memset(io_.get(), 1, bytes_); },
                [this] {
                  group_.all_reduce({floats(), bytes_ / 4}, ReduceOp::Sum, "bench").wait();
                });
  }

  /// This rank rewrites `mine`, then copies `theirs`, which the peer has rewritten.
  double copy_from_peer(std::byte* mine, const std::byte* theirs) {
    return time([&] { std::memset(mine, 1, bytes_); },
                [&] { std::memcpy(own_.data(), theirs, bytes_); });
  }

  double copy_local() {
    return time([this] { std::memset(local_.data(), 1, bytes_); },
                [this] { std::memcpy(own_.data(), local_.data(), bytes_); });
  }

 private:
  float* floats() { return reinterpret_cast<float*>(io_.get()); }

  double time(const std::function<void()>& dirty, const std::function<void()>& run) {
    dirty();
    group_.barrier("ready").wait();
    const tutti::core::Stopwatch watch;
    run();
    double seconds = watch.elapsed().count();
    group_.all_reduce({&seconds, 1, DType::Float64}, ReduceOp::Max, "slower").wait();
    return seconds;
  }

  Communicator group_;
  std::size_t bytes_;
  std::shared_ptr<std::byte> io_;
  std::vector<std::byte> own_, local_;
};

void measure(tutti::comm::World& world, std::size_t bytes, std::byte* const (&halves)[2]) {
  Bench bench(world, bytes);
  const std::byte* theirs = halves[1 - world.rank()];
  std::byte* mine = halves[world.rank()];
  bench.verify();
  const int rounds = bytes <= 32768 ? 400 : bytes <= (4U << 20) ? 60 : 12;
  std::vector<double> reduce, copy, local, ratio;
  for (int round = 0; round < rounds; ++round) {
    reduce.push_back(bench.all_reduce());
    copy.push_back(bench.copy_from_peer(mine, theirs));
    local.push_back(bench.copy_local());
    ratio.push_back(reduce.back() / copy.back());
  }
  if (world.rank() != 0) return;
  fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", tutti::core::format_bytes(bytes),
             percentile(reduce, 0.1) * 1e6, percentile(copy, 0.1) * 1e6,
             percentile(local, 0.1) * 1e6, percentile(ratio, 0.5));
  std::fflush(stdout);
}

}  // namespace

int main() {
  fmt::print("{}, last-level cache {}, 2 ranks on 2 cores, float32, in place, arena memory\n\n",
             cpu_field("model name"), last_level_cache());
  fmt::print(
      "| bytes | all_reduce us | memcpy us | memcpy (local) us | ratio |\n|---|---|---|---|---|\n");
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  // Memory that both map, so that each can copy what the other has just written.
  tutti::comm::MappingCache cache;
  const auto fd = tutti::comm::create_shared_memory("tutti-bench", 2 * kLargest);
  const auto both = cache.map(fd.get(), 2 * kLargest);
  std::byte* const halves[2] = {both->data(), both->data() + kLargest};
  tutti::comm::testing::SharedStore store;
  auto ranks =
      tutti::comm::testing::start_processes(store, 2, [&](tutti::comm::World& world, int rank) {
        pin(rank);
        for (const std::size_t bytes :
             {std::size_t{64}, std::size_t{4} << 10, std::size_t{32} << 10, std::size_t{256} << 10,
              std::size_t{2} << 20, std::size_t{16} << 20, kLargest}) {
          measure(world, bytes, halves);
        }
      });
  int status = 0;
  for (auto& rank : ranks) {
    const std::string error = rank.result(tutti::core::Deadline(tutti::core::Seconds(300)));
    if (error.empty()) continue;
    fmt::print(stderr, "{}\n", error);
    status = 1;
  }
  return status;
}
