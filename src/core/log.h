// Log lines for people, on stderr: "info" is what a user wants to see, "debug" what a developer
// does. The level comes from TUTTI_LOG (trace, debug, info, warn, error; default info), set once by
// cli.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace tutti::core {

struct LogOptions {
  int rank = -1;          // -1: not a rank (the launcher, a torch-free command)
  bool console = true;    // false: only into the file
  std::string file = {};  // RUN/log/rank-R.txt; empty: none
};

/// Sets the process's log sink. Called by cli, once, and once more by a rank when its run folder is
/// known. Throws ConfigError if TUTTI_LOG names no level.
void set_up_log(const LogOptions& options);

namespace log {
using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

/// For the record: one info line into the log file whatever TUTTI_LOG says, on stderr only from
/// debug on. Nothing before set_up_log() or without a file.
void record(const std::string& text);
}  // namespace log

}  // namespace tutti::core
