// When this process began to exist, from /proc.
#include "core/clock.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "core/error.h"

namespace tutti::core {
namespace {

/// Field 22 of /proc/self/stat: clock ticks between boot and the start of this process.
double start_ticks() {
  std::ifstream file("/proc/self/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  // The program's name (field 2) is in parentheses and may hold blanks and parentheses: count
  // behind the last one.
  const auto close = stat.rfind(')');
  if (close == std::string::npos)
    throw RunError("/proc/self/stat cannot be read: is /proc mounted?");
  std::istringstream rest(stat.substr(close + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) rest >> field;
  return std::stod(field);
}

}  // namespace

Seconds since_process_start() {
  static const double started_s = start_ticks() / static_cast<double>(::sysconf(_SC_CLK_TCK));
  timespec boot{};
  if (::clock_gettime(CLOCK_BOOTTIME, &boot) != 0) throw_errno("clock_gettime(CLOCK_BOOTTIME)");
  return Seconds(static_cast<double>(boot.tv_sec) + 1e-9 * static_cast<double>(boot.tv_nsec) -
                 started_s);
}

}  // namespace tutti::core
