// The policy of a job's end.
#include "launch/reap.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>

namespace tutti::launch {

std::string describe(const RankEnd& end) {
  const char* name = end.signal == 0 ? nullptr : ::sigabbrev_np(end.signal);
  const std::string how = end.signal == 0   ? fmt::format("ended with status {}", end.exit_status)
                          : name == nullptr ? fmt::format("was killed by signal {}", end.signal)
                                            : fmt::format("was killed by SIG{}", name);
  return fmt::format("rank {} (pid {}) {} {:.1f} s after the start", end.rank, end.pid, how,
                     end.after_s);
}

bool EndPolicy::is_failure(const RankEnd& end) const {
  if (end.signal == 0 && end.exit_status == 0) return false;
  // A rank that ends by the signal it was sent does what it was asked to.
  const bool obeys = signal_ != 0 && (end.signal == signal_ || end.exit_status == 128 + signal_);
  return !obeys;
}

void EndPolicy::ended(const RankEnd& end) {
  if (first_failure_ || kill_now_ || !is_failure(end)) return;
  first_failure_ = end;
  if (!terminate_at_s_) terminate_at_s_ = end.after_s + grace_.by_themselves_s;
  const double kill_at_s = end.after_s + grace_.by_themselves_s + grace_.after_terminate_s;
  kill_at_s_ = std::min(kill_at_s_.value_or(kill_at_s), kill_at_s);
}

void EndPolicy::signalled(int signal, double now_s) {
  if (signal_ != 0) {  // the second one: no more patience
    kill_now_ = true;
    kill_at_s_ = now_s;
    return;
  }
  signal_ = signal;
  // After SIGINT the ranks finish their step and save, however long that takes; a further SIGINT
  // ends it.
  if (signal != SIGINT) kill_at_s_ = now_s + grace_.after_signal_s;
}

Action EndPolicy::due(double now_s) {
  if (kill_at_s_ && now_s >= *kill_at_s_) {
    kill_at_s_.reset();
    terminate_at_s_.reset();
    kill_now_ = true;
    return Action::Kill;
  }
  if (terminate_at_s_ && now_s >= *terminate_at_s_) {
    terminate_at_s_.reset();
    return Action::Terminate;
  }
  return Action::None;
}

std::optional<double> EndPolicy::next_deadline_s() const {
  if (terminate_at_s_ && kill_at_s_) return std::min(*terminate_at_s_, *kill_at_s_);
  return terminate_at_s_ ? terminate_at_s_ : kill_at_s_;
}

int EndPolicy::exit_status() const {
  if (first_failure_)
    return first_failure_->signal == 0 && first_failure_->exit_status == 2 ? 2 : 1;
  return signal_ == 0 ? 0 : 128 + signal_;
}

}  // namespace tutti::launch
