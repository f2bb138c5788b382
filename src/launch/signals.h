// Signals for the launcher as a readable descriptor, so that they wait in the same poll as
// everything else.
#pragma once

#include <signal.h>

#include <optional>

#include "core/fd.h"

namespace tutti::launch {

/// While it lives, SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGCONT of this process are blocked and
/// read from fd() instead, and SIGPIPE is ignored. The former mask comes back at the end. Made
/// before any thread is started.
class SignalQueue {
 public:
  SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue();

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The next signal's number; empty if there is none. Does not wait.
  std::optional<int> next();

 private:
  sigset_t former_mask_ = {};
  struct sigaction former_pipe_ = {};
  core::Fd fd_;
};

}  // namespace tutti::launch
