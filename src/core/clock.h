// Time, in one place: seconds, the steady clock, and deadlines that every wait carries.
#pragma once

#include <chrono>

namespace tutti::core {

using Seconds = std::chrono::duration<double>;

/// Seconds on the steady clock of this host (CLOCK_MONOTONIC): comparable between the processes of
/// one host.
inline Seconds now() {
  return std::chrono::duration_cast<Seconds>(std::chrono::steady_clock::now().time_since_epoch());
}

/// The moment at which a wait gives up. Created once per operation and passed down.
class Deadline {
 public:
  explicit Deadline(Seconds after) : at_(now() + after), length_(after) {}
  [[nodiscard]] bool passed() const { return now() >= at_; }
  [[nodiscard]] Seconds left() const { return at_ - now(); }
  [[nodiscard]] Seconds length() const { return length_; }

 private:
  Seconds at_;
  Seconds length_;
};

/// Seconds since it was made.
class Stopwatch {
 public:
  [[nodiscard]] Seconds elapsed() const { return now() - start_; }

 private:
  Seconds start_ = now();
};

/// Seconds since this process began to exist (its start time in /proc), so that start-up counts the
/// loader too.
Seconds since_process_start();

}  // namespace tutti::core
