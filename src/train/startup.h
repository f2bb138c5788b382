// Where the time until the end of the first step goes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"

namespace tutti::train {

/// Collects named parts of start-up, which follow each other without gaps. The first part begins
/// with this process, or with the launcher that started it.
class StartupTimes {
 public:
  /// `began`: when this process did, on core::now()'s clock.
  explicit StartupTimes(core::Seconds began = core::now() - core::since_process_start())
      : began_(began), last_(began) {}

  /// The launcher's process began at `began` (core::now()'s clock; this host's). From then on until
  /// this process began was part "spawn". Later than this process, it is ignored: no launcher of
  /// ours wrote it.
  void launched(core::Seconds began);
  /// The time since the last call (or since the process began) was spent on `part`.
  void done(std::string part);
  /// Sum of all parts.
  [[nodiscard]] core::Seconds together() const { return last_ - began_; }
  /// One line per part, milliseconds.
  [[nodiscard]] std::string table() const;

 private:
  core::Seconds began_, last_;
  std::vector<std::pair<std::string, core::Seconds>> parts_;
};

}  // namespace tutti::train
