// The wish to stop, from the terminal or a scheduler. No handler and no global: the signals are
// blocked and asked for.
#pragma once

namespace tutti::train {

/// Blocks SIGINT and SIGTERM in this thread and in threads started after it, for as long as it
/// lives; so it is made before the first thread. A second signal is the launcher's business: it
/// kills.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  /// Whether a signal has come so far.
  bool requested();

 private:
  bool requested_ = false;
};

}  // namespace tutti::train
