// One child process: started with its mask, its files and its own process group.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/fd.h"

namespace tutti::launch {

struct SpawnOptions {
  std::filesystem::path program;           // looked for in PATH if it has no slash
  std::vector<std::string> args;           // without the program's name
  std::map<std::string, std::string> env;  // over the launcher's environment; an empty value unsets
  std::vector<int> cpus;  // process mask, set before exec so that every thread inherits it; empty:
                          // the launcher's
  int stdin_fd = -1;      // -1: the launcher's; likewise the next two
  int stdout_fd = -1;
  int stderr_fd = -1;
  int inherit_fd =
      -1;  // one further descriptor that stays open in the child, under the same number
};

/// A child that has been started and not yet been waited for.
struct Process {
  pid_t pid = -1;  // also the number of its process group
  core::Fd pidfd;  // readable when the child has ended
};

/// Starts the program. The child is the leader of a process group of its own: the terminal's Ctrl-C
/// reaches only the launcher, which passes it on once, and signals to the group reach what the
/// child forks. It is killed when the thread that called spawn() ends. Its signals are unblocked
/// and have their default actions. Descriptors of the launcher that are close-on-exec (all of ours)
/// are not seen by it. Throws core::ConfigError if the program cannot be executed, core::RunError
/// if the system has no room for a process.
Process spawn(const SpawnOptions& options);

}  // namespace tutti::launch
