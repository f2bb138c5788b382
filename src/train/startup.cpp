// The start-up table.
#include "train/startup.h"

#include <fmt/format.h>

namespace tutti::train {

void StartupTimes::launched(core::Seconds began) {
  if (began.count() <= 0 || began > began_) return;
  parts_.emplace(parts_.begin(), "spawn", began_ - began);
  began_ = began;
}

void StartupTimes::done(std::string part) {
  const core::Seconds now = core::now();
  parts_.emplace_back(std::move(part), now - last_);
  last_ = now;
}

std::string StartupTimes::table() const {
  std::string text = "start-up:";
  for (const auto& [part, time] : parts_)
    text += fmt::format("\n  {:<16} {:>8.1f} ms", part, time.count() * 1e3);
  return text + fmt::format("\n  {:<16} {:>8.1f} ms", "together", together().count() * 1e3);
}

}  // namespace tutti::train
