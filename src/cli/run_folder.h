// Whose folder is RUN? The rules that keep one run from writing into another's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace tutti::cli {

struct FolderWish {
  std::filesystem::path dir;   // [run] dir
  std::string resume;          // "latest", a path, or empty
  bool force = false;          // an old run there may be deleted
  bool evaluate_only = false;  // the run's own config stays as it is
};

/// What is to be done with the folder; nothing has been done yet.
struct FolderPlan {
  std::filesystem::path dir;
  std::optional<std::filesystem::path> resume_from;  // a complete checkpoint
  bool delete_old_run = false;
  std::filesystem::path config;  // RUN/config.toml; RUN/eval.toml where the run is only looked at
};

/// Whether the folder holds a run: its config or checkpoints.
bool holds_run(const std::filesystem::path& dir);

/// Problems: the folder holds a run that is neither resumed nor given up by --force; nothing to
/// resume from; the folder's name is taken by a file.
FolderPlan plan_folder(const FolderWish& wish, std::vector<core::Problem>& problems);

/// What only shows in the checkpoint itself: written by another model (`model` as
/// spec::model_to_json gives it), or damaged (every piece is hashed). Before anything is touched or
/// started; nothing if the run begins anew. Damage is thrown as core::ConfigError, which offers the
/// checkpoint before it.
void check_resume(const FolderPlan& plan, const core::Json& model,
                  std::vector<core::Problem>& problems);

/// Deletes an old run's files if planned (only those that tutti wrote), makes RUN and RUN/log, and
/// writes the config. Throws core::RunError.
void prepare_folder(const FolderPlan& plan, const std::string& config);

/// For ranks that do not write: waits until rank 0 has written exactly this config. Throws
/// core::ConfigError naming the key if it wrote another (30 s if that file was there before),
/// core::RunError if there is none after 60 s.
void await_folder(const FolderPlan& plan, const std::string& config);

}  // namespace tutti::cli
