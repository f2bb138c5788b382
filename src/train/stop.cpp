// Pending signals, asked for once a step.
#include "train/stop.h"

#include <csignal>
#include <ctime>

namespace tutti::train {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

StopSignal::~StopSignal() {
  requested();  // one that came when another rank's had already ended the run must not kill it now
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool StopSignal::requested() {
  const sigset_t set = stop_signals();
  const timespec no_wait{};
  while (sigtimedwait(&set, nullptr, &no_wait) > 0) requested_ = true;
  return requested_;
}

}  // namespace tutti::train
