// What a rank shows of itself at wire-up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::comm {

/// What a rank puts into the store: where it is and how it is reached.
struct Card {
  std::string boot_id;  // of the kernel: the same host
  std::string net;      // network namespace: abstract socket names reach no further
  std::string address;  // abstract AF_UNIX name, without the leading zero byte
  std::string host;     // for messages only
  int numa = -1;        // node of its CPUs; -1: several or unknown

  [[nodiscard]] std::string text() const;
  /// Empty if the text is no card.
  static std::optional<Card> parse(std::string_view text);
};

/// Start time of a process in clock ticks since boot (/proc/PID/stat, field 22), 0 if it cannot be
/// read: with the pid it names one process for ever. `process`: "self", or a number of the PID
/// namespace that /proc was mounted in (getpid() may be of another one).
std::uint64_t process_start(const std::string& process);

}  // namespace tutti::comm
