// Small text files of the kernel, read line by line.
#include "topology/proc.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace tutti::topology {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The rest of the first line that begins with `key`, without colon and blanks.
std::string value_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t value = line.find_first_not_of(" \t:", key.size());
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

/// A number of bytes in a file of its own; empty for "max", for no file, and for version 1's huge
/// "no limit".
std::optional<std::uint64_t> bytes_in(const std::string& path) {
  const std::string text = first_line(path);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  constexpr std::size_t kMostDigits = 18;  // below 2^60: nobody limits memory to more
  if (text.size() > kMostDigits) return std::nullopt;
  return std::stoull(text);
}

std::uint64_t kib(const std::string& text) {  // "24689012 kB"
  return text.empty() ? 0 : std::strtoull(text.c_str(), nullptr, 10) * 1024;
}

/// This process's folder below one hierarchy of /proc/self/cgroup: "0::/a/b" or "4:memory:/a/b".
std::string cgroup_path(const std::string& root, std::string_view controllers) {
  std::ifstream file(root + "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controllers) return line.substr(second + 1);
  }
  return "";
}

/// Narrows `memory` by the limits of a control group and all its parents: a parent's limit binds
/// too.
void limit(Memory& memory, const std::string& hierarchy, std::string path, const char* limit_file,
           const char* usage_file) {
  while (true) {
    const std::string folder = hierarchy + path + "/";
    if (const auto most = bytes_in(folder + limit_file)) {
      const std::uint64_t used = bytes_in(folder + usage_file).value_or(0);
      memory.total_bytes = std::min(memory.total_bytes, *most);
      memory.available_bytes = std::min(memory.available_bytes, *most - std::min(used, *most));
    }
    if (path.empty() || path == "/") return;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

std::string boot_id(const std::string& root) {
  return first_line(root + "proc/sys/kernel/random/boot_id");
}

std::string processor_name(const std::string& root) {
  return value_of(root + "proc/cpuinfo", "model name");
}

Memory memory_of_host(const std::string& root) {
  const std::string meminfo = root + "proc/meminfo";
  Memory memory{kib(value_of(meminfo, "MemTotal")), kib(value_of(meminfo, "MemAvailable"))};
  limit(memory, root + "sys/fs/cgroup", cgroup_path(root, ""), "memory.max", "memory.current");
  limit(memory, root + "sys/fs/cgroup/memory", cgroup_path(root, "memory"), "memory.limit_in_bytes",
        "memory.usage_in_bytes");
  return memory;
}

}  // namespace tutti::topology
