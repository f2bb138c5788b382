// Texts and exits of core/error.h.
#include "core/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti::core {
namespace {

std::string lines(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += problem.text;
  }
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<Problem> problems)
    : Error(2, lines(problems)), problems_(std::move(problems)) {}

void throw_if_any(std::vector<Problem> problems) {
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

void throw_errno(std::string_view what) {
  const int error = errno;
  throw RunError(fmt::format("{} failed: {}", what, std::strerror(error)));
}

void check_failed(const char* condition, const char* file, int line, const std::string& text) {
  std::fprintf(stderr, "tutti: a bug in tutti: %s does not hold at %s:%d%s%s\n", condition, file,
               line, text.empty() ? "" : ": ", text.c_str());
  std::abort();
}

}  // namespace tutti::core
