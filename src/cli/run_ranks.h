// Starts the ranks of a command on this host and waits for them: what train, verify and launch
// share.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::cli {

struct RanksOptions {
  std::filesystem::path program;
  std::vector<std::string> args;
  int ranks = 0;                   // 0: one per core
  std::string bind = "core";       // core | numa | none
  int threads = 0;                 // OMP_NUM_THREADS of each rank; 0: cores / ranks
  bool keep_user_threads = false;  // leave OMP_NUM_THREADS alone where the user has set it
  bool prefix = false;             // forward every rank's lines with "[rank] " in front
  std::filesystem::path
      log_folder;          // output of ranks 1 and up goes to rank-R.txt there; empty: to ours
  bool hand_store = true;  // rank 0 inherits the store's listening socket (TUTTI_STORE_FD)
};

/// Returns the exit status of the whole (launch/reap.h) when all ranks have ended; a failure has
/// then been told on stderr. Throws core::ConfigError if the program cannot be started.
int run_ranks(const RanksOptions& options);

/// The program with LibTorch: libexec/tutti-torch beside this one, or ../libexec/tutti-torch where
/// it is installed. Throws core::RunError naming both places if it is in neither.
std::filesystem::path torch_program();

}  // namespace tutti::cli
