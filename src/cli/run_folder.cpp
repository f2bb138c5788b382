// Rules first, then deeds.
#include "cli/run_folder.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <thread>

#include "checkpoint/reader.h"
#include "config/print.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/lines.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

/// What tutti leaves in a run's folder; --force deletes these and nothing else.
constexpr const char* kOurs[] = {"config.toml", "eval.toml",     "tokenizer.json",
                                 "plan.json",   "metrics.jsonl", "summary.json",
                                 "trace.json",  "checkpoints",   "log"};

bool lies_in(const fs::path& path, const fs::path& dir) {
  const fs::path relative =
      fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(dir));
  return !relative.empty() && *relative.begin() != "..";
}

[[noreturn]] void throw_failed(const std::string& what, const fs::path& path,
                               const std::error_code& error) {
  throw core::RunError(fmt::format("{} {} failed: {}", what, path.string(), error.message()));
}

}  // namespace

bool holds_run(const fs::path& dir) {
  std::error_code ignored;
  return fs::exists(dir / "config.toml", ignored) || fs::exists(dir / "checkpoints", ignored);
}

FolderPlan plan_folder(const FolderWish& wish, std::vector<core::Problem>& problems) {
  FolderPlan plan{.dir = wish.dir,
                  .config = wish.dir / (wish.evaluate_only ? "eval.toml" : "config.toml")};
  std::error_code ignored;
  if (wish.dir.empty()) {
    problems.push_back(
        {"[run] dir is empty: a run needs a folder. Set it like dir = \"runs/first\"."});
    return plan;
  }
  if (fs::exists(wish.dir, ignored) && !fs::is_directory(wish.dir, ignored)) {
    problems.push_back({fmt::format("[run] dir = {} is a file, not a folder. Choose another name.",
                                    wish.dir.string())});
    return plan;
  }
  if (wish.resume == "latest") {
    plan.resume_from = checkpoint::latest_checkpoint(wish.dir / "checkpoints");
    if (!plan.resume_from) {
      problems.push_back(
          {fmt::format("--resume latest finds no complete checkpoint in {}. Leave --resume out to "
                       "start anew, or give a "
                       "checkpoint's path.",
                       (wish.dir / "checkpoints").string())});
    }
    return plan;
  }
  if (!wish.resume.empty()) {
    try {
      plan.resume_from = checkpoint::find_checkpoint(wish.resume);
    } catch (const core::ConfigError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
      return plan;
    }
    if (lies_in(*plan.resume_from, wish.dir)) return plan;
  }
  if (!holds_run(wish.dir)) return plan;
  plan.delete_old_run = wish.force;
  if (!wish.force) {
    problems.push_back({fmt::format(
        "[run] dir = {0} holds another run: two runs in one folder would mix their files. Go on "
        "with it by "
        "--resume latest, choose another folder by run.dir=PATH, or delete it by --force.",
        wish.dir.string())});
  }
  return plan;
}

void check_resume(const FolderPlan& plan, const core::Json& model,
                  std::vector<core::Problem>& problems) {
  if (!plan.resume_from) return;
  checkpoint::Reader reader(*plan.resume_from);
  const std::vector<core::Problem> differences = checkpoint::check_model(reader.index(), model);
  problems.insert(problems.end(), differences.begin(), differences.end());
  if (differences.empty()) reader.verify_all();
}

void prepare_folder(const FolderPlan& plan, const std::string& config) {
  std::error_code error;
  if (plan.delete_old_run) {
    for (const char* name : kOurs) {
      fs::remove_all(plan.dir / name, error);
      if (error) throw_failed("Deleting", plan.dir / name, error);
    }
  }
  fs::create_directories(plan.dir / "log", error);
  if (error) throw_failed("Making the folder", plan.dir / "log", error);
  core::write_file_atomically(plan.config, config);
}

void await_folder(const FolderPlan& plan, const std::string& config) {
  constexpr double kPatience = 60;   // for rank 0 to write anything
  constexpr double kUnchanged = 30;  // until a file that was there before is taken for rank 0's
  const core::Stopwatch watch;
  const fs::path& path = plan.config;
  const auto written = [&] {
    std::error_code none;
    const auto time = fs::last_write_time(path, none);
    return none ? std::nullopt : std::optional(time);
  };
  const auto before = written();
  while (true) {
    if (const auto now = written()) {
      const auto differs = core::first_difference(config::statements(config),
                                                  config::statements(core::read_file(path)));
      if (!differs) return;
      // An earlier run's, which rank 0 is about to replace, or what rank 0 has.
      if (now != before || watch.elapsed().count() > kUnchanged)
        throw core::ConfigError(fmt::format(
            "This rank's config has \"{}\", {} of rank 0 has \"{}\": all ranks of a run "
            "need the same config. Start every rank with the same file and the same "
            "overrides.",
            differs->first, path.string(), differs->second));
    }
    if (watch.elapsed().count() > kPatience) {
      throw core::RunError(fmt::format(
          "rank 0 did not write {} within {} s: either it failed, or the ranks do not share this "
          "folder. Rank 0's output says which.",
          path.string(), kPatience));
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(10));  // a file of another host has no event to wait for
  }
}

}  // namespace tutti::cli
