// How tutti says that something went wrong: whose fault it is decides the type, the type decides
// the exit status.
//   user's mistake      Problem -> ConfigError        exit 2   (every module reports Problems, cli
//   throws them together) the run failed      RunError, PeerError           exit 1 interrupted
//   Interrupted                   exit 130 caller's mistake    std::invalid_argument         a bug
//   in the calling code our own bug         TUTTI_CHECK                   aborts
// A text gives the value, the rule, the reason and the cure.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::core {

/// One mistake of the user: a sentence with value, rule, reason and cure.
struct Problem {
  std::string text;
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// Anything that ends a command; `exit_status()` is what the process returns.
class Error : public std::runtime_error {
 public:
  Error(int exit_status, const std::string& text)
      : std::runtime_error(text), exit_status_(exit_status) {}
  [[nodiscard]] int exit_status() const noexcept { return exit_status_; }

 private:
  int exit_status_;
};

/// The user's mistakes, all at once. what() holds one line per problem.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::vector<Problem> problems);
  explicit ConfigError(std::string text) : ConfigError(std::vector{Problem{std::move(text)}}) {}
  [[nodiscard]] const std::vector<Problem>& problems() const noexcept { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// The run failed: disk full, out of memory, not finite.
class RunError : public Error {
 public:
  explicit RunError(const std::string& text) : Error(1, text) {}
};

/// Another rank is gone, late, or does something else than this one. Recoverable by leaving it out.
class PeerError : public RunError {
 public:
  /// `rank`: world rank of the culprit, -1 if unknown.
  PeerError(int rank, const std::string& text) : RunError(text), rank_(rank) {}
  [[nodiscard]] int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

/// The user asked to stop (SIGINT) and the run stopped in order.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& text) : Error(130, text) {}
};

/// Throws ConfigError if there are any.
void throw_if_any(std::vector<Problem> problems);

/// "open of runs/x/plan.json failed: No space left on device" from errno; a RunError.
[[noreturn]] void throw_errno(std::string_view what);

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& text);

}  // namespace tutti::core

/// A condition that only a bug in tutti can break: prints it and aborts.
#define TUTTI_CHECK(condition, ...)                                                               \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::tutti::core::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
