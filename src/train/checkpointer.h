// Saves checkpoints from a thread of its own while training goes on.
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "checkpoint/format.h"
#include "comm/store.h"
#include "core/clock.h"
#include "core/trace.h"
#include "train/state.h"

namespace tutti::train {

struct CheckpointerOptions {
  std::filesystem::path folder;  // RUN/checkpoints
  int rank = 0;
  int ranks = 1;
  int keep = 3;
  core::Seconds timeout{600};  // for the other ranks' files
};

/// One save at a time. Every rank writes its own file; rank 0 then writes the index and makes the
/// checkpoint real. Ranks tell each other through the store, so a full disk on one is known to all.
class Checkpointer {
 public:
  /// `store`: a connection of its own (null for one rank). `trace` may be null and outlives this
  /// object.
  Checkpointer(CheckpointerOptions options, std::unique_ptr<comm::Store> store, core::Trace* trace);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  /// Gives up the save in work: its error, if nobody asked for it, is logged.
  ~Checkpointer();

  /// Waits for the previous save (throwing its error), then starts this one. `index`: everything
  /// but the tensors.
  void save(Snapshot snapshot, checkpoint::Index index);

  /// Waits until the last save is real on every rank. Throws core::RunError; older checkpoints are
  /// then intact.
  void wait();

  /// Folder of the newest checkpoint that this object has completed; rank 0 only, empty elsewhere.
  [[nodiscard]] std::optional<std::filesystem::path> last() const { return last_; }

 private:
  void write(const Snapshot& snapshot, const checkpoint::Index& index, const std::stop_token& stop);
  std::string write_own(const Snapshot& snapshot, std::int64_t step);
  void finish(const std::string& own, const checkpoint::Index& index, const std::stop_token& stop);
  std::string await(const std::string& key, const std::stop_token& stop);

  CheckpointerOptions options_;
  std::unique_ptr<comm::Store> store_;
  core::Trace* trace_;
  std::optional<std::filesystem::path> last_;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace tutti::train
