// tutti verify: runs each layout and the one-rank reference, and compares what they leave behind.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/run_ranks.h"
#include "cli/verify_plan.h"
#include "config/print.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/temporary_folder.h"
#include "report/certificate.h"
#include "topology/discover.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFault = "TUTTI_FAULT";
constexpr int kInterrupted = 130;

struct VerifyWish {
  std::string config;
  std::vector<std::string> layouts;
  int steps = 5;
  bool json = false;
};

/// Takes a planted fault out of the environment while the reference runs: with the same fault on
/// both sides, the certificate would compare a wrong result with itself.
class WithoutFault {
 public:
  WithoutFault() {
    if (const char* fault = std::getenv(kFault)) fault_ = fault;
    ::unsetenv(kFault);
  }
  WithoutFault(const WithoutFault&) = delete;
  WithoutFault& operator=(const WithoutFault&) = delete;
  ~WithoutFault() {
    if (fault_) ::setenv(kFault, fault_->c_str(), 1);
  }

 private:
  std::optional<std::string> fault_;
};

/// Runs `run` and returns its dump.
fs::path dump_of(const VerifyRun& run, int steps, const fs::path& folder) {
  core::log::info("{}: {} steps on {} rank{}", run.name, steps, run.ranks,
                  run.ranks == 1 ? "" : "s");
  fs::create_directories(folder / "log");
  const fs::path config = folder / "config.toml";
  core::write_file_atomically(config, config::print(run.config));
  const int status = run_ranks({.program = torch_program(),
                                .args = {"dump", config.string(), "--steps", std::to_string(steps),
                                         "--out", folder.string()},
                                .ranks = run.ranks,
                                .bind = run.config.run.bind,
                                .threads = run.config.run.threads,
                                .log_folder = folder / "log"});
  if (status == kInterrupted) throw core::Interrupted("verify was interrupted");
  if (status != 0) {
    throw core::RunError(fmt::format("layout \"{}\" did not finish its {} steps (status {})",
                                     run.name, steps, status));
  }
  return folder;
}

int verify(const VerifyWish& wish) {
  std::vector<core::Problem> problems;
  const VerifyPlan plan = plan_verify(wish.config, wish.layouts, topology::discover(), problems);
  core::throw_if_any(std::move(problems));

  const core::TemporaryFolder dumps("verify");
  report::CertificateInput input;
  input.adamw = plan.reference64.config.optim.kind == "adamw";
  {
    const WithoutFault clean;
    input.reference64 = dump_of(plan.reference64, wish.steps, dumps.path() / "reference64");
    input.single = dump_of(plan.single, wish.steps, dumps.path() / "single");
    input.half = plan.single.config.run.precision == "bf16";
  }
  for (std::size_t i = 0; i < plan.layouts.size(); ++i) {
    const VerifyRun& run = plan.layouts[i];
    const std::string name = fmt::format("layout{}", i);
    input.runs.push_back({run.name, dump_of(run, wish.steps, dumps.path() / name),
                          dump_of(run, wish.steps, dumps.path() / (name + "-repeat"))});
  }
  const report::Certificate certificate = report::certify(input);
  if (wish.json) {
    fmt::print("{}\n", report::to_json(certificate).dump(2));
  } else {
    fmt::print("{}", report::table(certificate));
  }
  return certificate.ok() ? 0 : 1;
}

}  // namespace

void add_verify(Commands& commands) {
  CLI::App* command =
      add_command(commands.app, "verify", "proves that layouts compute what one rank computes",
                  "tutti verify examples/tiny.toml --layouts dp=2 dp=4,zero=0");
  auto wish = std::make_shared<VerifyWish>();
  command->add_option("CONFIG", wish->config, "the run's config, a TOML file")->required();
  command->add_option("--layouts", wish->layouts, "layouts such as dp=2,zero=1,micro=1; or all")
      ->required();
  command->add_option("--steps", wish->steps, "optimizer steps of each run")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--json", wish->json, "print one JSON document");
  command->callback([&commands, wish] { commands.chosen = [wish] { return verify(*wish); }; });
}

}  // namespace tutti::cli
