// A LAYOUT becomes overrides of the config, so that the config's own checks see it.
#include "cli/verify_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/run_plan.h"
#include "config/parse.h"
#include "mesh/layout.h"

namespace tutti::cli {
namespace {

constexpr int kMostRanksOfAll = 4;

std::vector<std::string> overrides_of(const mesh::Layout& layout, const std::string& precision) {
  std::vector<std::string> overrides;
  for (const mesh::Axis axis : mesh::kAxes) {
    overrides.push_back(fmt::format("parallel.{}={}", mesh::name(axis), layout.size(axis)));
  }
  overrides.push_back(fmt::format("parallel.zero={}", layout.zero));
  overrides.push_back(fmt::format("parallel.zero_shard={}", layout.zero_shard));
  overrides.push_back(fmt::format("parallel.share_pages={}", layout.share_pages));
  overrides.push_back(fmt::format("parallel.sequence={}", layout.sequence));
  overrides.push_back(fmt::format("parallel.recompute=\"{}\"", layout.recompute));
  overrides.push_back(fmt::format("batch.micro={}", layout.micro));
  overrides.push_back(fmt::format("run.precision=\"{}\"", precision));
  return overrides;
}

/// One run at a layout whose dp is known; problems carry the run's name.
VerifyRun plan_one(const std::string& config, const std::string& name, const mesh::Layout& layout,
                   const std::string& precision, const topology::Host& host,
                   std::vector<core::Problem>& problems) {
  VerifyRun run{.name = name, .config = {}, .ranks = layout.ranks()};
  std::vector<core::Problem> found;
  try {
    const config::RunConfig loaded = config::load(config, overrides_of(layout, precision));
    run.config = plan_run(loaded, {.given = run.ranks, .local = 0}, host, found).config;
  } catch (const core::ConfigError& error) {
    found = error.problems();
  }
  for (const core::Problem& problem : found) {
    problems.push_back({fmt::format("layout \"{}\": {}", name, problem.text)});
  }
  return run;
}

}  // namespace

std::vector<std::string> all_layouts(const config::RunConfig& base) {
  std::vector<std::string> layouts;
  const auto add_all = [&](const std::string& axes, int dp, int tp) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const bool shared : {true, false}) {
        if (!shared && (zero < 3 || dp == 1)) continue;  // elsewhere the same path runs
        for (const bool sequence : {true, false}) {
          if (!sequence && tp == 1) continue;
          for (const char* recompute : {"none", "selective", "full"}) {
            layouts.push_back(fmt::format("{},zero={},share_pages={},sequence={},recompute={}",
                                          axes, zero, shared, sequence, recompute));
          }
        }
      }
    }
  };
  for (int dp = 1; dp <= kMostRanksOfAll; ++dp) {
    for (int tp = 1; dp * tp <= kMostRanksOfAll; ++tp) {
      if (base.model.heads % tp != 0) continue;
      for (const int micro : std::set{1, base.batch.micro}) {
        if (base.batch.global % (micro * dp) != 0) continue;
        add_all(fmt::format("dp={},tp={},micro={}", dp, tp, micro), dp, tp);
      }
    }
  }
  return layouts;
}

VerifyPlan plan_verify(const std::string& config, std::span<const std::string> layouts,
                       const topology::Host& host, std::vector<core::Problem>& problems) {
  const config::RunConfig base = config::load(config, {});
  const mesh::Layout one{.zero = base.parallel.zero,
                         .micro = base.batch.micro,
                         .share_pages = base.parallel.share_pages,
                         .recompute = base.parallel.recompute,
                         .sequence = base.parallel.sequence};
  const std::string precision = base.run.precision == "bf16" ? "bf16" : "fp32";
  VerifyPlan plan{
      .reference64 = plan_one(config, "one rank, fp64", one, "fp64", host, problems),
      .single = plan_one(config, "one rank, " + precision, one, precision, host, problems),
      .layouts = {}};
  std::vector<std::string> names(layouts.begin(), layouts.end());
  if (names == std::vector<std::string>{"all"}) {
    names = all_layouts(base);
  }
  for (const std::string& name : names) {
    const std::size_t before = problems.size();
    mesh::Layout layout = mesh::parse_layout(name, one, problems);
    const int ranks = layout.ranks_or(static_cast<int>(host.cores.size()));
    if (problems.size() == before) layout = mesh::fill_dp(layout, ranks, problems);
    if (problems.size() != before) continue;
    plan.layouts.push_back(plan_one(config, name, layout, precision, host, problems));
  }
  return plan;
}

}  // namespace tutti::cli
