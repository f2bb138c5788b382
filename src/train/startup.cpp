// The start-up table.
#include "train/startup.h"

#include <fmt/format.h>

namespace tutti::train {

void StartupTimes::done(std::string part) {
  const core::Seconds now = core::now();
  parts_.emplace_back(std::move(part), now - last_);
  last_ = now;
}

std::string StartupTimes::table() const {
  std::string text = "start-up:";
  core::Seconds sum{};
  for (const auto& [part, time] : parts_) {
    text += fmt::format("\n  {:<16} {:>8.1f} ms", part, time.count() * 1e3);
    sum += time;
  }
  return text + fmt::format("\n  {:<16} {:>8.1f} ms", "together", sum.count() * 1e3);
}

}  // namespace tutti::train
