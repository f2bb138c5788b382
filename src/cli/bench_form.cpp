// Reads the form, has it measured beside other libraries, prints the table.
#include "cli/bench_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "cli/bench_peers.h"
#include "cli/bench_run.h"
#include "comm/choice.h"
#include "core/error.h"
#include "core/json.h"
#include "core/suggest.h"
#include "core/temporary_folder.h"
#include "core/units.h"
#include "schedule/collective.h"
#include "topology/discover.h"

namespace tutti::cli {
namespace {

using comm::Collective;

constexpr Collective kOps[] = {
    Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather, Collective::Broadcast,
    Collective::Reduce,    Collective::Scatter,       Collective::Gather,    Collective::AllToAll,
    Collective::Barrier,   Collective::Send};

std::vector<Collective> parse_ops(const std::string& text) {
  std::vector<std::string> known = {"all"};
  for (const Collective op : kOps) {
    known.push_back(op_name(op));
    if (text == known.back()) return {op};
  }
  if (text == "all") return {std::begin(kOps), std::end(kOps)};
  const std::string near = core::nearest(text, known);
  throw core::ConfigError(fmt::format("--op {} is no operation{}. Known: {}.", text,
                                      near.empty() ? "" : fmt::format("; did you mean {}", near),
                                      fmt::join(known, ", ")));
}

comm::DType parse_dtype(const std::string& text) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < comm::kNumDTypes; ++i) {
    const auto dtype = static_cast<comm::DType>(i);
    known.emplace_back(comm::name(dtype));
    if (text == known.back()) return dtype;
  }
  throw core::ConfigError(
      fmt::format("--dtype {} is no type. Known: {}.", text, fmt::join(known, ", ")));
}

// "8:64M": from 8 bytes to 64 MiB, doubling; "4K": one size.
std::vector<std::size_t> parse_sizes(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto first = core::parse_bytes(text.substr(0, colon));
  const auto last = colon == std::string::npos ? first : core::parse_bytes(text.substr(colon + 1));
  if (!first || !last || *first < 8 || *last < *first) {
    throw core::ConfigError(fmt::format(
        "--sizes {} is no range of bytes: give FIRST:LAST with 8 <= FIRST <= LAST, such as 64:64M.",
        text));
  }
  std::vector<std::size_t> sizes;
  for (std::size_t size = *first; size <= *last; size *= 2) {
    sizes.push_back(size);
    if (size > *last / 2) break;  // doubling could wrap
  }
  return sizes;
}

constexpr int kMostRanks = 256;

// Two buffers of a rank in the arena, three that memcpy is measured with.
void check_memory(const BenchOptions& bench, std::uint64_t available_bytes) {
  const double wanted = 5.0 * bench.ranks * static_cast<double>(bench.sizes.back());
  if (wanted <= static_cast<double>(available_bytes)) return;
  throw core::ConfigError(fmt::format(
      "--sizes up to {} on {} ranks need {} of memory, this host has {} to give. Measure smaller "
      "sizes or fewer ranks.",
      core::format_bytes(bench.sizes.back()), bench.ranks,
      core::format_bytes(static_cast<std::uint64_t>(wanted)), core::format_bytes(available_bytes)));
}

BenchOptions measured(const BenchForm& form, int cores) {
  BenchOptions bench;
  bench.api = form.api;
  bench.ops = parse_ops(form.op);
  bench.sizes = parse_sizes(form.sizes);
  bench.ranks = form.ranks == 0 ? std::max(2, cores) : form.ranks;
  if (bench.ranks < 2 || bench.ranks > kMostRanks) {
    throw core::ConfigError(
        fmt::format("-n {}: 2 to {} ranks of this host can be measured.", bench.ranks, kMostRanks));
  }
  bench.dtype = parse_dtype(form.dtype);
  bench.registered = !form.unregistered;
  bench.statistics = form.statistics;
  if (!(form.seconds > 0 && form.seconds <= 3600)) {
    throw core::ConfigError(
        fmt::format("--seconds {}: more than 0 and at most 3600 are possible.", form.seconds));
  }
  bench.seconds_per_row = form.seconds;
  if (form.algorithm != "auto") schedule::parse_algorithm(form.algorithm);
  bench.comm.algorithm = form.algorithm;
  bench.comm.timeout_s = 60;
  if (!form.table.empty()) {
    std::ifstream file(form.table);
    if (!file) {
      throw core::ConfigError(
          fmt::format("--table {}: cannot be read. Give a file as plan.json's section collectives.",
                      form.table));
    }
    bench.comm.table.assign(std::istreambuf_iterator<char>(file), {});
    comm::ChoiceTable::parse(bench.comm.table);
  }
  return bench;
}

// Every figure of several runs of the same rows becomes its median over the runs.
std::vector<BenchRow> medians(const std::vector<std::vector<BenchRow>>& runs) {
  std::vector<BenchRow> rows = runs.front();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (double BenchRow::*figure :
         {&BenchRow::p10_us, &BenchRow::p50_us, &BenchRow::p95_us, &BenchRow::max_us,
          &BenchRow::memcpy_us, &BenchRow::memcpy_local_us, &BenchRow::barrier_us, &BenchRow::ratio,
          &BenchRow::algbw_GBps, &BenchRow::busbw_GBps}) {
      std::vector<double> values;
      for (const auto& run : runs) values.push_back(run[i].*figure);
      std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
      rows[i].*figure = values[values.size() / 2];
    }
    for (const auto& run : runs) rows[i].wrong = std::max(rows[i].wrong, run[i].wrong);
  }
  return rows;
}

// Ours and the peers take turns, so that a change of the machine's load meets all of them.
std::vector<BenchRow> run_all(BenchOptions bench, bool peers, const MakeOperation& make) {
  if (!peers) return bench_collectives(bench, make);
  constexpr int kRounds = 3;
  bench.seconds_per_row /= 2;
  const core::TemporaryFolder folder("bench");
  std::vector<std::string> missing;
  const auto others = installed_peers(folder.path(), bench.ranks, bench.sizes.back(), missing);
  for (const std::string& text : missing) fmt::print(stderr, "not compared with {}\n", text);
  std::vector<std::vector<std::vector<BenchRow>>> runs(others.size() + 1);
  for (int round = 0; round < kRounds; ++round) {
    runs[0].push_back(bench_collectives(bench, make));
    for (std::size_t p = 0; p < others.size(); ++p) {
      runs[p + 1].push_back(run_peer(others[p], bench.ranks));
    }
  }
  std::vector<BenchRow> rows;
  for (const auto& run : runs) {
    for (const BenchRow& row : medians(run)) {
      const bool asked =  // peers bring their own list
          std::find(bench.ops.begin(), bench.ops.end(), row.op) != bench.ops.end() &&
          (row.op == Collective::Barrier ||
           std::find(bench.sizes.begin(), bench.sizes.end(), row.bytes) != bench.sizes.end());
      if (asked) rows.push_back(row);
    }
  }
  return rows;
}

core::Json json_of(const BenchRow& row, const BenchOptions& bench) {
  const bool ours = row.memcpy_us > 0;
  const auto known = [ours](double value) { return ours ? core::Json(value) : core::Json(); };
  return {{"op", op_name(row.op)},
          {"api", row.api.get()},
          {"dtype", comm::name(bench.dtype)},
          {"ranks", bench.ranks},
          {"bytes", row.bytes},
          {"registered", ours && bench.registered},
          {"algorithm", ours ? core::Json(row.algorithm.get()) : core::Json()},
          {"why", ours ? core::Json(row.why.get()) : core::Json()},
          {"time_us_p10", row.p10_us},
          {"time_us_p50", row.p50_us},
          {"time_us_p95", known(row.p95_us)},
          {"time_us_max", known(row.max_us)},
          {"algbw_GBps", row.algbw_GBps},
          {"busbw_GBps", row.busbw_GBps},
          {"memcpy_us", known(row.memcpy_us)},
          {"memcpy_local_us", known(row.memcpy_local_us)},
          {"memcpy_ratio", known(row.ratio)},
          {"barrier_us", known(row.barrier_us)},
          {"iterations", row.iterations},
          {"wrong", row.wrong}};
}

void print_table(const std::vector<BenchRow>& rows, const BenchOptions& bench, bool explain) {
  fmt::print(
      "{:<14} {:<8} {:>10} {:>12} {:>9} {:>12} {:>10} {:>10} {:>9} {:>9} {:>10} {:>8} {:>8} "
      "{:>6}\n",
      "op", "api", "bytes", "count", "type", "algorithm", "p10 us", "p50 us", "algbw", "busbw",
      "memcpy us", "/memcpy", "barrier", "wrong");
  double bus = 0;
  int counted = 0;
  for (const BenchRow& row : rows) {
    const bool ours = row.memcpy_us > 0;
    fmt::print("{:<14} {:<8} {:>10} {:>12} {:>9} {:>12} {:>10.2f} {:>10.2f} {:>9.2f} {:>9.2f}",
               op_name(row.op), row.api.get(), row.bytes,
               row.bytes / comm::element_bytes(bench.dtype), comm::name(bench.dtype),
               row.algorithm.get(), row.p10_us, row.p50_us, row.algbw_GBps, row.busbw_GBps);
    if (ours) {
      fmt::print(" {:>10.2f} {:>8.2f} {:>8.2f}", row.memcpy_us, row.ratio, row.barrier_us);
      bus += row.busbw_GBps;
      ++counted;
    } else {
      fmt::print(" {:>10} {:>8} {:>8}", "-", "-", "-");
    }
    fmt::print(" {:>6}\n", row.wrong);
    if (explain && ours && row.why.get()[0] != '\0') fmt::print("    because {}\n", row.why.get());
  }
  fmt::print("average bus bandwidth {:.2f} GB/s\n", counted > 0 ? bus / counted : 0.0);
}

}  // namespace

std::shared_ptr<BenchForm> add_bench_form(CLI::App& command) {
  auto form = std::make_shared<BenchForm>();
  command.add_option("--op", form->op, "all_reduce, ..., send_recv, barrier; or all")
      ->capture_default_str();
  command.add_option("--sizes", form->sizes, "FIRST:LAST in bytes (K, M, G), doubling")
      ->capture_default_str();
  command.add_option("-n,--ranks", form->ranks, "ranks (default: cores, at least 2)");
  command.add_option("--api", form->api, "comm: the engine | group: its face for tensors")
      ->capture_default_str();
  command.add_option("--dtype", form->dtype, "type of the elements")->capture_default_str();
  command.add_option("--algorithm", form->algorithm, "one for all sizes, instead of the table's")
      ->capture_default_str();
  command.add_option("--table", form->table,
                     "a table of algorithms (JSON) instead of the measured one");
  command.add_option("--seconds", form->seconds, "longest time per row")->capture_default_str();
  command.add_flag("--unregistered", form->unregistered, "buffers outside of the arena");
  command.add_flag("--statistics", form->statistics,
                   "all_reduce, reduce_scatter: with the sum of squares, as gradients are reduced");
  command.add_flag("--explain", form->explain, "say why each algorithm was taken");
  command.add_flag("--peers", form->peers, "run Open MPI or MPICH and Gloo in turn with ours");
  command.add_flag("--json", form->json, "print one JSON document");
  return form;
}

std::vector<std::string> arguments_of(const BenchForm& form) {
  std::vector<std::string> words = {"--op",        form.op,
                                    "--sizes",     form.sizes,
                                    "--ranks",     std::to_string(form.ranks),
                                    "--api",       form.api,
                                    "--dtype",     form.dtype,
                                    "--algorithm", form.algorithm,
                                    "--seconds",   fmt::format("{}", form.seconds)};
  if (!form.table.empty()) words.insert(words.end(), {"--table", form.table});
  if (form.unregistered) words.emplace_back("--unregistered");
  if (form.statistics) words.emplace_back("--statistics");
  if (form.explain) words.emplace_back("--explain");
  if (form.peers) words.emplace_back("--peers");
  if (form.json) words.emplace_back("--json");
  return words;
}

int run_bench(const BenchForm& form, const MakeOperation& make) {
  const topology::Host host = topology::discover();
  const BenchOptions bench = measured(form, static_cast<int>(host.cores.size()));
  check_memory(bench, host.memory_available_bytes);
  const std::string processor = host.processor;
  const std::string cache =
      host.caches.empty() ? "unknown" : core::format_bytes(host.caches.back().bytes);
  if (!form.json) {
    fmt::print("{}, last-level cache {}, {} cores; {} ranks, {} memory{}\n", processor, cache,
               host.cores.size(), bench.ranks, bench.registered ? "arena" : "heap",
               bench.ranks > static_cast<int>(host.cores.size())
                   ? "; more ranks than cores: no figure here is performance"
                   : "");
  }
  const std::vector<BenchRow> rows = run_all(bench, form.peers, make);
  const bool wrong =
      std::any_of(rows.begin(), rows.end(), [](const BenchRow& r) { return r.wrong > 0; });
  if (form.json) {
    core::Json list = core::Json::array();
    for (const BenchRow& row : rows) list.push_back(json_of(row, bench));
    const core::Json machine = {
        {"processor", processor}, {"last_level_cache", cache}, {"cores", host.cores.size()}};
    std::cout << core::Json{{"machine", machine}, {"rows", list}}.dump() << "\n";
  } else {
    print_table(rows, bench, form.explain);
  }
  if (wrong) throw core::RunError("results are wrong: see the column \"wrong\"");
  return 0;
}

}  // namespace tutti::cli
