// Who ended how, and what follows from it: the policy of a job's end, without processes or clocks
// of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::launch {

/// How a rank ended.
struct RankEnd {
  int rank = 0;
  int pid = 0;
  int exit_status = 0;  // if signal is 0
  int signal = 0;       // that killed it; 0: it exited
  double after_s = 0;   // since the job's start
};

/// "rank 1 (pid 123) was killed by SIGKILL 12.3 s after the start", "... ended with status 3 ..."
std::string describe(const RankEnd& end);

/// What the launcher does about the ranks that still run.
enum class Action { None, Terminate, Kill };

struct Grace {
  double by_themselves_s =
      3;  // after the first failure: ranks notice it too and print the better message
  double after_terminate_s = 1;  // then SIGTERM, then SIGKILL: 4 s in all
  double after_signal_s = 10;    // a rank's time after a SIGTERM or SIGHUP from outside
};

/// Decides from the events of a job (times in seconds, never decreasing). The first failure wins.
class EndPolicy {
 public:
  explicit EndPolicy(Grace grace) : grace_(grace) {}

  void ended(const RankEnd& end);
  /// A signal that came from outside and was passed on.
  void signalled(int signal, double now_s);

  /// Called when something happened or `next_deadline_s` has come; each action is asked for once.
  Action due(double now_s);
  /// When due() will answer something else than None, if nothing happens; empty: never.
  [[nodiscard]] std::optional<double> next_deadline_s() const;

  [[nodiscard]] const std::optional<RankEnd>& first_failure() const { return first_failure_; }
  /// Of the whole job, when every rank has ended: 0; 1, or 2 if the first failure was a user's
  /// mistake; 128 + signal (130 after SIGINT) if it was stopped from outside.
  [[nodiscard]] int exit_status() const;

 private:
  [[nodiscard]] bool is_failure(const RankEnd& end) const;

  Grace grace_;
  std::optional<RankEnd> first_failure_;
  int signal_ = 0;  // the first from outside
  bool kill_now_ = false;
  std::optional<double> terminate_at_s_;
  std::optional<double> kill_at_s_;
};

}  // namespace tutti::launch
