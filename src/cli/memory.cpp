// tutti memory: bytes per rank, term by term, before anything is allocated; and published figures
// answered row by row.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/memory_plan.h"
#include "cli/run_plan.h"
#include "config/parse.h"
#include "core/file.h"
#include "core/units.h"
#include "spec/published.h"
#include "spec/walls.h"
#include "topology/discover.h"

namespace tutti::cli {
namespace {

struct MemoryWish {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;
  std::string limit;
  std::string rows;
  double tokens = 0, peak_flops = 0, utilisation = 1, bandwidth = 0;  // 0: not asked
  bool json = false;
};

int answer_rows(const MemoryWish& wish) {
  if (!std::filesystem::exists(wish.rows)) {
    throw core::ConfigError(fmt::format(
        "--rows {}: there is no such file. It wants a table like tests/published/memory.csv.",
        wish.rows));
  }
  const spec::PublishedAnswer answer = spec::answer_memory_rows(core::read_file(wish.rows));
  if (wish.json) {
    fmt::print("{}\n", spec::to_json(answer).dump(2));
  } else {
    fmt::print("{}", spec::describe(answer));
  }
  return 0;
}

std::optional<std::uint64_t> parsed_limit(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (const auto bytes = core::parse_bytes(text)) return bytes;
  throw core::ConfigError(fmt::format(
      "--limit {} is no number of bytes. Write it like 80G, 512M or 1073741824.", text));
}

spec::WallsQuestion walls_of(const MemoryWish& wish, const CLI::App& command,
                             const config::RunConfig& config) {
  const auto given = [&](const char* name, double value) {
    return command.count(name) > 0 ? std::optional(value) : std::nullopt;
  };
  return {.tokens = given("--tokens", wish.tokens),
          .peak_flops = given("--peak-flops", wish.peak_flops),
          .utilisation = wish.utilisation,
          .bandwidth = given("--bandwidth", wish.bandwidth),
          .sequence = config.data.sequence,
          .weight_bytes = config.run.precision == "fp64"   ? 8
                          : config.run.precision == "bf16" ? 2
                                                           : 4};
}

/// A learned position embedding has a row per position; rotary positions have no end.
void check_sequence(const data::DataOptions& data, const spec::ModelOptions& model,
                    std::vector<core::Problem>& problems) {
  if (model.kind != "gpt2" || model.context <= 0 || data.sequence <= model.context) return;
  problems.push_back(
      {fmt::format("[data] sequence = {} is longer than [model] context = {}: the position "
                   "embedding covers no more. Set sequence to {} or less, or raise context.",
                   data.sequence, model.context, model.context)});
}

int memory(const MemoryWish& wish, const CLI::App& command) {
  if (!wish.rows.empty()) return answer_rows(wish);
  if (wish.config.empty()) {
    throw core::ConfigError(
        "tutti memory wants a config or --rows FILE.csv: tutti memory examples/shakespeare.toml");
  }
  const std::optional<std::uint64_t> limit = parsed_limit(wish.limit);
  config::RunConfig config = config::load(wish.config, wish.overrides, config::For::Planning);
  const topology::Host host = topology::discover();
  const spec::WallsQuestion walls = walls_of(wish, command, config);
  std::vector<core::Problem> problems = spec::check(walls);
  const spec::ModelOptions model = resolve_model(config, problems);
  check_sequence(config.data, model, problems);
  const mesh::Layout layout = plan_layout(config, {wish.ranks, 0}, host, problems);
  core::throw_if_any(problems);
  const spec::MemoryReport report =
      plan_memory(config, model, layout, {limit, host.memory_available_bytes, layout.ranks()},
                  Proposals::Everything, problems);
  core::throw_if_any(problems);
  if (wish.json) {
    fmt::print("{}\n", spec::to_json(report).dump(2));
    return 0;
  }
  const spec::Graph graph = spec::graph(model);
  const std::string operations = spec::describe(graph, walls);  // may throw: before any print
  fmt::print("{}: {} parameters, {}, {} sequences of {} tokens at once, {}\n",
             model.preset.empty() ? model.kind : model.preset,
             core::format_count(static_cast<std::uint64_t>(graph.parameters().value())),
             mesh::describe(layout), config.batch.micro, config.data.sequence,
             config.run.precision);
  fmt::print("{}\n{}\n", operations, spec::describe(report));
  return 0;
}

}  // namespace

void add_memory(Commands& commands) {
  CLI::App* command = add_command(
      commands.app, "memory", "gives the bytes that each rank needs, before anything is allocated",
      "tutti memory examples/shakespeare.toml -n 2\n"
      "         tutti memory examples/shakespeare.toml model.preset=llama3-8b --limit 80G");
  auto wish = std::make_shared<MemoryWish>();
  command->add_option("CONFIG", wish->config, "a run's config, a TOML file");
  command->add_option("key=value", wish->overrides,
                      "keys that override the config's (batch.micro=1)");
  command->add_option("-n", wish->ranks, "ranks (default: [parallel], else one per core)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--limit", wish->limit,
                      "bytes of a rank's device, K/M/G (default: [run] memory_limit, else this "
                      "host's share)");
  command->add_option("--rows", wish->rows,
                      "answer every row of a CSV of published memory figures");
  command->add_option("--tokens", wish->tokens,
                      "of a whole training: how long one device computes");
  command->add_option("--peak-flops", wish->peak_flops, "of that device, FLOP/s (312e12)");
  command->add_option("--utilisation", wish->utilisation, "share of the peak that it reaches");
  command->add_option("--bandwidth", wish->bandwidth,
                      "bytes per second (32e9): how long moving all weights once takes");
  command->add_flag("--json", wish->json, "print one JSON document");
  command->callback([&commands, command, wish] {
    commands.chosen = [command, wish] { return memory(*wish, *command); };
  });
}

}  // namespace tutti::cli
