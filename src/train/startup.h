// Where the time until the first step goes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"

namespace tutti::train {

/// Collects named parts of start-up. The first part begins with the process.
class StartupTimes {
 public:
  /// The time since the last call (or since the process began) was spent on `part`.
  void done(std::string part);
  /// One line per part, milliseconds.
  [[nodiscard]] std::string table() const;

 private:
  core::Seconds last_ = core::now() - core::since_process_start();
  std::vector<std::pair<std::string, core::Seconds>> parts_;
};

}  // namespace tutti::train
