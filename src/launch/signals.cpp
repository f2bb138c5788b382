// signalfd.
#include "launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "core/error.h"

namespace tutti::launch {

SignalQueue::SignalQueue() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGTSTP, SIGCONT}) ::sigaddset(&wanted, signal);
  struct sigaction hang_up = {};
  ::sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) ::sigaddset(&wanted, SIGHUP);  // else nohup started us
  fd_ = core::Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0) core::throw_errno("signalfd");
  ::pthread_sigmask(SIG_BLOCK, &wanted, &former_mask_);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &former_pipe_);
}

SignalQueue::~SignalQueue() {
  ::sigaction(SIGPIPE, &former_pipe_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info;
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace tutti::launch
