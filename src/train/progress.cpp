// Progress for people.
#include "train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/units.h"

namespace tutti::train {
namespace {
constexpr core::Seconds kRenew{0.2};
constexpr int kBar = 24;
}  // namespace

ProgressLine::ProgressLine(std::int64_t steps, std::int64_t done)
    : steps_(steps), done_(done), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stderr);
}

void ProgressLine::step(const StepMetrics& metrics) {
  const double rate = static_cast<double>(metrics.tokens) / metrics.step_s;
  tokens_per_s_ = tokens_per_s_ == 0 ? rate : 0.95 * tokens_per_s_ + 0.05 * rate;
  if (terminal_) {
    if (watch_.elapsed() - last_ < kRenew && metrics.step != steps_) return;
    last_ = watch_.elapsed();
    const auto filled = static_cast<int>(kBar * metrics.step / std::max<std::int64_t>(1, steps_));
    fmt::print(stderr, "\r\033[K{}{} {}", std::string(filled, '='), std::string(kBar - filled, '.'),
               text(metrics));
    std::fflush(stderr);
    open_ = true;
    return;
  }
  const std::int64_t every = std::max<std::int64_t>(1, steps_ / 50);
  if (metrics.step % every == 0 || metrics.step == steps_ || metrics.step == done_ + 1)
    fmt::print(stderr, "{}\n", text(metrics));
}

void ProgressLine::note(const std::string& text) {
  fmt::print(stderr, "{}{}\n", open_ ? "\r\033[K" : "", text);
  open_ = false;
}

std::string ProgressLine::text(const StepMetrics& metrics) const {
  const auto made = std::max<std::int64_t>(1, metrics.step - done_);
  const double left_s = watch_.elapsed().count() / static_cast<double>(made) *
                        static_cast<double>(steps_ - metrics.step);
  return fmt::format("step {}/{}  loss {:.4f}  {} tokens/s  {} left", metrics.step, steps_,
                     metrics.loss, core::format_count(static_cast<std::uint64_t>(tokens_per_s_)),
                     core::format_seconds(left_s));
}

}  // namespace tutti::train
